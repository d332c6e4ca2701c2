//! Compiles the eBPF programs, and writes the Rust types of what they share.

use std::path::Path;
use std::{env, io};

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 3] = ["run_queue", "bounce", "first_responder"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    for name in PROGRAMS {
        SkeletonBuilder::new()
            .source(format!("src/bpf/{name}.bpf.c"))
            // Version 3 has atomic operations that are ordered.
            .clang_args(["-Wall", "-Werror", "-mcpu=v3"])
            .build_and_generate(Path::new(&out).join(format!("{name}.rs")))
            .map_err(|error| format!("{error:#}; clang 12 or later must be there"))?;
    }
    println!("cargo:rerun-if-changed=src/bpf");
    Ok(())
}
