//! Compiles the eBPF programs, and writes the Rust types of what they share.

use std::path::Path;
use std::{env, io};

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf/run_queue.bpf.c";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args(["-Wall", "-Werror"])
        .build_and_generate(Path::new(&out).join("run_queue.rs"))
        .map_err(|error| format!("{error:#}; clang 12 or later must be there"))?;
    println!("cargo:rerun-if-changed=src/bpf");
    Ok(())
}
