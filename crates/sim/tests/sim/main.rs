//! Worlds of many servers and clients, run to their end.

mod copies;
mod crowds;
mod graphs;
mod limits;
mod locks;
mod memory;
mod noise;
mod plans;
mod privileges;
mod retries;
mod swarm;
