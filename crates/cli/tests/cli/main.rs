//! The `seawall` command, as its users meet it: real processes, their output and their exit codes.

#[cfg(feature = "columns")]
mod columns;
mod compare;
mod config;
mod crowd;
mod dashboard;
mod demo;
mod errors;
mod graph;
mod help;
mod live;
mod load;
mod machine;
mod metrics;
#[cfg(feature = "otel")]
mod otel;
mod pages;
mod paths;
mod privileges;
mod proxy;
#[cfg(feature = "rocks")]
mod rocks;
#[cfg(feature = "search")]
mod search;
mod serve;
mod sim;
mod spill;
mod support;
mod top;
mod watched;
