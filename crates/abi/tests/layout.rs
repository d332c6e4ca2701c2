//! The layout is what the documentation says, and stays so.

use std::collections::BTreeMap;
use std::fs;

use seawall_abi::page::{
    Description, FIELDS, FIRST_SHARD, Orders, Publisher, Reader, SHARD_SIZE, SHARDS, SIZE, Sample,
};
use seawall_abi::process::Process;

/// Name, offset and size of each row of the documentation's tables that names a field.
fn documented() -> Vec<(String, usize, usize)> {
    include_str!("../../../docs/metrics-page.md")
        .lines()
        .filter_map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, offset, size, name, _, ..] = cells[..] else { return None };
            let name = name.strip_prefix('`')?.strip_suffix('`')?;
            Some((name.into(), offset.parse().ok()?, size.parse().ok()?))
        })
        .collect()
}

#[test]
fn the_documentation_says_where_everything_lies() {
    let fields: Vec<_> =
        FIELDS.iter().map(|field| (field.name.to_owned(), field.offset, field.size)).collect();
    assert_eq!(documented(), fields);
    let text = include_str!("../../../docs/metrics-page.md");
    let shards = format!("in {SHARDS} shards of {SHARD_SIZE} bytes that begin at {FIRST_SHARD}");
    assert!(text.contains(&shards), "{shards}");
    assert!(text.contains(&format!("one file of {SIZE} bytes")));
}

#[test]
fn fields_are_aligned_and_do_not_overlap() {
    let mut end = 0;
    for field in FIELDS {
        let is_in_shard = field.name.starts_with("shard.");
        if field.name == "shard.arrived" {
            end = 0;
        }
        assert!(field.offset >= end, "{} overlaps the one before", field.name);
        assert_eq!(field.offset % field.size.min(8), 0, "{}", field.name);
        end = field.offset + field.size;
        assert!(end <= if is_in_shard { SHARD_SIZE } else { FIRST_SHARD });
    }
    const { assert!(FIRST_SHARD + SHARDS * SHARD_SIZE <= SIZE) };
}

#[test]
fn a_page_has_these_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let this = Process::this().unwrap();
    let description = Description { name: "golden".into(), port: 0x0102, process: this };
    let page = Publisher::create(folder.path(), &description).unwrap();
    page.beat(0x11);
    page.boost_until(0x12);
    page.on_late();
    page.set_cpu_time(0x13);
    page.pause(0xff, 0xff);
    page.resume(0x16);
    page.pause(0x14, 0x15);
    page.shard(0).on_arrival();
    page.shard(15).on_completion(&Sample {
        exec_ns: 0x21,
        pool_wait_ns: 0x22,
        time_from_start_ns: Some(0x23),
        upstream_exec_ns: 0x0102_0304_0506_0708,
        is_hinted: true,
    });
    page.shard(15).on_wait(0x25);
    let agent = Reader::open(page.path()).unwrap();
    agent
        .set_orders(&Orders {
            heartbeat_ns: 0x31,
            lease_ns: 0x32,
            boosted_until_ns: 0xff,
            boost_permille: 0x34,
            speed_permille: 0x35,
            granted_milli: 0x36,
            hint: 0x37,
            expected_time_from_start_ns: 0x38,
            freeze_ns: 0x39,
            growing_until_ns: 0x3a,
        })
        .unwrap();
    agent.boost_until(0x33).unwrap();

    let mut expected = BTreeMap::new();
    let mut put = |at: usize, bytes: &[u8]| {
        expected.extend((at..).zip(bytes.iter().copied()).filter(|(_, byte)| *byte != 0));
    };
    put(0, b"SWPAGE\r\n\x01\0\0\0\0\x10\0\0");
    put(16, &this.pid.to_le_bytes());
    put(20, &[2, 1]);
    put(24, &this.start_ticks.to_le_bytes());
    put(32, &this.namespace.to_le_bytes());
    put(40, &[16]);
    put(64, b"golden");
    for (at, byte) in [(256, 0x11), (264, 0x12), (272, 1), (296, 0x13)].into_iter().chain([
        (304, 0x14),
        (312, 0x15),
        (320, 1),
        (328, 0x16),
    ]) {
        put(at, &[byte]);
    }
    for (at, byte) in (512..592).step_by(8).zip(0x31..=0x3a) {
        put(at, &[byte]);
    }
    put(1024, &[1]);
    let last = 1024 + 15 * 128;
    for (at, byte) in
        [(8, 1), (32, 0x21), (40, 0x22), (48, 0x23), (64, 1), (72, 1), (80, 1), (88, 0x25)]
    {
        put(last + at, &[byte]);
    }
    put(last + 56, &[8, 7, 6, 5, 4, 3, 2, 1]);

    let bytes = fs::read(page.path()).unwrap();
    let found: BTreeMap<_, _> = (0..).zip(bytes).filter(|(_, byte)| *byte != 0).collect();
    assert_eq!(found, expected);
}
