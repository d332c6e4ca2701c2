//! Estimators of measured quantities. Facts go in by `observe`; reading never changes an estimate.

mod decimal;
mod ewma;
mod extremum;
mod histogram;
mod quantile;
mod rate;
mod rolling;

pub use decimal::DecimalHistogram;
pub use ewma::Ewma;
pub use extremum::{WindowedMax, WindowedMin};
pub use histogram::{BOUNDS, Histogram, SharedHistogram};
pub use quantile::WindowedQuantile;
pub use rate::Rate;
pub use rolling::Rolling;
