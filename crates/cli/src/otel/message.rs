//! The text of `/metrics` as one OTLP message.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value,
};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use seawall_measure::names::{self, Kind, otel};

use super::text::{self, Sample};

/// From when to when the values are, nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Everything that `text` says of metrics that [`names::ALL`] has.
pub(super) fn request(text: &str, resource: &Resource, span: Span) -> ExportMetricsServiceRequest {
    let mut series: BTreeMap<&str, Vec<Sample<'_>>> = BTreeMap::new();
    for sample in text::samples(text) {
        series.entry(sample.name).or_default().push(sample);
    }
    let metrics = names::ALL.iter().filter_map(|metric| {
        let data = match metric.kind {
            Kind::Counter => Data::Sum(Sum {
                data_points: numbers(series.get(metric.name)?, span),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            }),
            Kind::Gauge => {
                Data::Gauge(Gauge { data_points: numbers(series.get(metric.name)?, span) })
            }
            Kind::Histogram => Data::Histogram(Histogram {
                data_points: histograms(metric, &series, span)?,
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
            }),
        };
        Some(Metric {
            name: metric.otel_name(),
            description: metric.help.into(),
            unit: metric.otel_unit().into(),
            metadata: Vec::new(),
            data: Some(data),
        })
    });
    let scope = InstrumentationScope {
        name: "seawall".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let metrics =
        ScopeMetrics { scope: Some(scope), metrics: metrics.collect(), schema_url: String::new() };
    let resource_metrics = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![metrics],
        schema_url: String::new(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

/// An attribute with text.
pub(super) fn attribute(key: impl Into<String>, value: impl Into<String>) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

fn attributes(labels: &BTreeMap<&str, String>) -> Vec<KeyValue> {
    let own = labels.iter().filter(|(key, _)| **key != "le");
    own.map(|(key, value)| attribute(otel::attribute(key), value)).collect()
}

fn numbers(samples: &[Sample<'_>], span: Span) -> Vec<NumberDataPoint> {
    let point = |sample: &Sample<'_>| NumberDataPoint {
        attributes: attributes(&sample.labels),
        start_time_unix_nano: span.start,
        time_unix_nano: span.end,
        value: Some(Number::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    };
    samples.iter().map(point).collect()
}

/// A point for each set of labels but `le`. Prometheus' buckets hold what the shorter ones do, too.
fn histograms(
    metric: &names::Metric,
    series: &BTreeMap<&str, Vec<Sample<'_>>>,
    span: Span,
) -> Option<Vec<HistogramDataPoint>> {
    let of = |suffix: &str| series.get(&*format!("{}{suffix}", metric.name));
    let mut points: BTreeMap<BTreeMap<&str, String>, Vec<(f64, u64)>> = BTreeMap::new();
    for sample in of("_bucket")? {
        let mut labels = sample.labels.clone();
        let Some(bound) = labels.remove("le").and_then(|le| le.parse().ok()) else { continue };
        points.entry(labels).or_default().push((bound, sample.value as u64));
    }
    let sum_of = |labels: &BTreeMap<&str, String>| {
        of("_sum")?.iter().find(|sample| sample.labels == *labels).map(|sample| sample.value)
    };
    let points = points.into_iter().map(|(labels, mut buckets)| {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let below = std::iter::once(0).chain(buckets.iter().map(|(_, count)| *count));
        let counts = buckets.iter().zip(below).map(|((_, all), below)| all.saturating_sub(below));
        let mut known = attributes(&labels);
        if *metric == names::REQUEST {
            known.push(attribute(otel::RPC_SYSTEM.0, otel::RPC_SYSTEM.1));
            let outcome = labels.get("outcome").filter(|outcome| *outcome != "done");
            known.extend(outcome.map(|outcome| attribute(otel::ERROR_TYPE, outcome)));
        }
        HistogramDataPoint {
            attributes: known,
            start_time_unix_nano: span.start,
            time_unix_nano: span.end,
            count: buckets.last().map_or(0, |(_, count)| *count),
            sum: sum_of(&labels),
            bucket_counts: counts.collect(),
            explicit_bounds: buckets.iter().map(|it| it.0).filter(|it| it.is_finite()).collect(),
            ..HistogramDataPoint::default()
        }
    });
    Some(points.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { start: 1, end: 2 };

    fn metrics(text: &str) -> BTreeMap<String, Metric> {
        let mut request = request(text, &Resource::default(), SPAN);
        let scope = request.resource_metrics.remove(0).scope_metrics.remove(0);
        scope.metrics.into_iter().map(|metric| (metric.name.clone(), metric)).collect()
    }

    #[test]
    fn counters_and_gauges_keep_their_values() {
        let text = "seawall_refusals_total{class=\"a\",stage=\"cpu\",reason=\"budget\"} 4\n\
                    seawall_credit_pool 12.5\nsomebody_elses_total 3\n";
        let all = metrics(text);
        assert_eq!(all.len(), 2);
        let Some(Data::Sum(sum)) = &all["seawall.admission.refusals"].data else { panic!() };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(Number::AsDouble(4.0)));
        let expected = [("class", "a"), ("reason", "budget"), ("stage", "cpu")];
        let expected = expected.map(|(key, value)| attribute(format!("seawall.{key}"), value));
        assert_eq!(sum.data_points[0].attributes, expected);
        let Some(Data::Gauge(gauge)) = &all["seawall.credit.pool"].data else { panic!() };
        assert_eq!(gauge.data_points[0].value, Some(Number::AsDouble(12.5)));
    }

    #[test]
    fn buckets_are_counted_apart() {
        let series = "seawall_request_seconds";
        let labels = "class=\"a\",outcome=\"refused\"";
        let bucket = |le: &str, n: u32| format!("{series}_bucket{{{labels},le=\"{le}\"}} {n}\n");
        let total = |what: &str, n: f64| format!("{series}_{what}{{{labels}}} {n}\n");
        let buckets = bucket("0.001", 2) + &bucket("0.01", 5) + &bucket("+Inf", 6);
        let text = &(buckets + &total("sum", 0.75) + &total("count", 6.0));
        let all = metrics(text);
        let metric = &all["rpc.server.call.duration"];
        assert_eq!(metric.unit, "s");
        let Some(Data::Histogram(histogram)) = &metric.data else { panic!() };
        let [point] = &histogram.data_points[..] else { panic!() };
        assert_eq!((point.count, point.sum), (6, Some(0.75)));
        assert_eq!(point.bucket_counts, [2, 3, 1]);
        assert_eq!(point.explicit_bounds, [0.001, 0.01]);
        assert!(point.attributes.contains(&attribute("error.type", "refused")));
        assert!(point.attributes.contains(&attribute("rpc.system.name", "seawall")));
    }
}
