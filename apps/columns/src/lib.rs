//! A column store of price series, where passes that write a whole column are bounded.
//!
//! ```text
//!                ┌──────────┐  max ───────────────────────────────► reply
//!   request ───► │  close   │
//!                │ (Arrow)  │  smooth ─► memory semaphore ─► write ─► column `smoothed`
//!                └──────────┘               │ no room         whole, then exchanged ─► reply
//!                                           └─► refused, at once
//! ```
//!
//! The two operations of Svalinn's DataFrame (§5.1) on a year of EUR/USD, one row for each minute:
//! the maximum of the closing prices, all or those of some rows, which reads them once, and a
//! smoothing of them with decay, which reads all and writes another of the same length back.
//! Smoothing takes memory bandwidth, so it, and nothing else, may be behind a
//! [semaphore](seawall_sync::MemorySemaphore):
//! see [`StoreConfig::semaphore`](store::StoreConfig::semaphore).
//!
//! ```
//! use seawall_columns::native::Request;
//! use seawall_columns::series::Series;
//! use seawall_columns::store::{Store, StoreConfig};
//! use seawall_control::Instant;
//! use seawall_control::request::{Claims, Context};
//!
//! let series = Series::generate(10_000, 1);
//! let store = Store::new(series.close.clone().into(), &StoreConfig::default());
//!
//! let ctx = Context::new(Claims::default(), Instant::ORIGIN);
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let most = store.compute(&ctx, Request::max()).await?;
//! assert!(series.close.contains(&most.value));
//! store.compute(&ctx, Request::Smooth { span: 5 }).await?;
//! assert_eq!(store.smoothed().len(), 10_000);
//! # anyhow::Ok(()) })?;
//! # anyhow::Ok(())
//! ```
//!
//! # What it does not do
//!
//! It has one table and two operations: no queries, no indices, no joins. What is smoothed stays in
//! memory and is gone with the server.

pub mod file;
pub mod maximum;
pub mod native;
pub mod series;
pub mod server;
pub mod smoothing;
pub mod store;
