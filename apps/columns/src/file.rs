//! Series in files: Arrow's own format (IPC), one record batch for all rows.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Float64Type;
use arrow_array::{
    Array as _, ArrayRef, Float64Array, RecordBatch, TimestampSecondArray, UInt32Array,
};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType};
use thiserror::Error;

use crate::series::Series;

/// The column that is computed with.
pub const CLOSE: &str = "close";

/// Why a file cannot be written or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is none.
    #[error("there is no series in {0}; `seawall-columns build` makes one")]
    Missing(PathBuf),
    /// The system cannot read or write it.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is not a file of Arrow.
    #[error("{file} is not an Arrow file: {source}")]
    Arrow {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: ArrowError,
    },
    /// It has not the column that is computed with.
    #[error("{file}: {problem}")]
    Column {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Writes `series` to `file`; what was there before is replaced.
///
/// # Errors
///
/// If the system cannot write it.
pub fn write(file: &Path, series: &Series) -> Result<(), FileError> {
    let io = |source| FileError::Io { file: file.into(), source };
    let arrow = |source| FileError::Arrow { file: file.into(), source };
    let batch = batch(series).map_err(arrow)?;
    let out = BufWriter::new(File::create(file).map_err(io)?);
    let mut writer = FileWriter::try_new(out, &batch.schema()).map_err(arrow)?;
    writer.write(&batch).map_err(arrow)?;
    let mut out = writer.into_inner().map_err(arrow)?;
    out.flush().map_err(io)
}

/// Reads the closing prices of `file`: its column [`CLOSE`], whatever other columns it has.
///
/// # Errors
///
/// If there is no such file, it is not one of Arrow, or has no such column of 64-bit floating-point
/// numbers, all of them finite, or no row.
pub fn read_close(file: &Path) -> Result<Float64Array, FileError> {
    let arrow = |source| FileError::Arrow { file: file.into(), source };
    let column = |problem: String| FileError::Column { file: file.into(), problem };
    let opened = File::open(file).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => FileError::Missing(file.into()),
        _ => FileError::Io { file: file.into(), source },
    })?;
    let reader = FileReader::try_new(BufReader::new(opened), None).map_err(arrow)?;
    let schema = reader.schema();
    let Some((index, field)) = schema.column_with_name(CLOSE) else {
        return Err(column(format!("there is no column `{CLOSE}`")));
    };
    if *field.data_type() != DataType::Float64 {
        let found = field.data_type();
        return Err(column(format!("the column `{CLOSE}` is of {found}; needed is Float64")));
    }
    let mut prices = Vec::new();
    for batch in reader {
        let batch = batch.map_err(arrow)?;
        let part = batch.column(index).as_primitive::<Float64Type>();
        if part.null_count() > 0 {
            return Err(column(format!("the column `{CLOSE}` has rows without a value")));
        }
        prices.extend_from_slice(part.values());
    }
    if let Some(row) = prices.iter().position(|price| !price.is_finite()) {
        return Err(column(format!("the column `{CLOSE}` is {} in row {row}", prices[row])));
    }
    if prices.is_empty() {
        return Err(column("there are no rows".into()));
    }
    Ok(prices.into())
}

fn batch(series: &Series) -> Result<RecordBatch, ArrowError> {
    let prices = |column: &Vec<f64>| Arc::new(Float64Array::from(column.clone())) as ArrayRef;
    let timestamp = TimestampSecondArray::from(series.timestamp.clone()).with_timezone("UTC");
    RecordBatch::try_from_iter([
        ("timestamp", Arc::new(timestamp) as ArrayRef),
        ("open", prices(&series.open)),
        ("high", prices(&series.high)),
        ("low", prices(&series.low)),
        (CLOSE, prices(&series.close)),
        ("volume", Arc::new(UInt32Array::from(series.volume.clone()))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these batches of one column.
    fn with_column(file: &Path, name: &str, batches: &[ArrayRef]) {
        let batches: Vec<_> = batches
            .iter()
            .map(|column| RecordBatch::try_from_iter([(name, column.clone())]).unwrap())
            .collect();
        let schema = batches[0].schema();
        let mut writer = FileWriter::try_new(File::create(file).unwrap(), &schema).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }

    #[test]
    fn a_series_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("series.arrow");
        let series = Series::generate(3_000, 5);
        write(&file, &series).unwrap();
        assert_eq!(read_close(&file).unwrap().values()[..], series.close[..]);
        let reader = FileReader::try_new(File::open(&file).unwrap(), None).unwrap();
        let names: Vec<_> = reader.schema().fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(names, ["timestamp", "open", "high", "low", "close", "volume"]);
    }

    #[test]
    fn batches_are_one_column() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("parts.arrow");
        let part = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        with_column(&file, CLOSE, &[part(vec![1.0, 2.0]), part(vec![]), part(vec![3.0])]);
        assert_eq!(read_close(&file).unwrap().values()[..], [1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it.arrow");
        let told = |expected: &str| {
            let error = read_close(&file).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("it.arrow"), "{error}");
        };
        told("seawall-columns build");
        std::fs::write(&file, "timestamp,close\n0,1.07\n").unwrap();
        told("is not an Arrow file");
        let prices = |values: Vec<Option<f64>>| Arc::new(Float64Array::from(values)) as ArrayRef;
        with_column(&file, "last", &[prices(vec![Some(1.0)])]);
        told("there is no column `close`");
        with_column(&file, CLOSE, &[Arc::new(UInt32Array::from(vec![1]))]);
        told("needed is Float64");
        with_column(&file, CLOSE, &[prices(vec![Some(1.0), None])]);
        told("rows without a value");
        with_column(&file, CLOSE, &[prices(vec![Some(1.0), Some(f64::NAN)])]);
        told("is NaN in row 1");
        with_column(&file, CLOSE, &[prices(vec![])]);
        told("there are no rows");
        let whole = folder.path().join("whole.arrow");
        write(&whole, &Series::generate(100, 1)).unwrap();
        let bytes = std::fs::read(&whole).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        told("is not an Arrow file");
    }
}
