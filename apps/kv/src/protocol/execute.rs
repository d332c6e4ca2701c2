//! From a command to its reply.

use bytes::BytesMut;
use seawall_control::request::{Claims, Context, Rejected};

use super::command::{Arithmetic, Command, Keys};
use super::response::{self, Reply, VERSION};
use crate::store::{
    ArithmeticError, Entry, Stats, Store, StoreError, StoreMode, StoreOutcome, Value,
};
use crate::time::UnixTime;

/// Longest reply to one lookup, in bytes: 64 of the largest items. A longer one is replaced by an
/// error, since a line of a few kilobytes that repeats one key could ask for gigabytes.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// What is to become of the connection after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Go on.
    Keep,
    /// Write what is in the buffer, and close.
    Close,
}

/// Carries out `command` at `now` and appends its reply, if it wants one, to `out`; `ctx` says how
/// long it may wait for locks.
///
/// # Errors
///
/// The command cannot wait for a lock. It has had no effect, and nothing is appended; what is to be
/// answered is [`Reply::Overloaded`].
pub fn execute(
    store: &Store,
    ctx: &Context,
    now: UnixTime,
    command: &Command,
    out: &mut BytesMut,
) -> Result<Connection, Rejected> {
    let reply = match command {
        Command::Get { keys, with_cas } => {
            look_up(keys, *with_cas, out, |key| store.get(ctx, now, key))?
        }
        Command::Gat { exptime, keys, with_cas } => {
            // Once it has changed one item, the others are waited for.
            let claims = Claims { droppable: false, ..Claims::default() };
            let (committed, mut asker) = (Context::new(claims, ctx.arrived()), ctx);
            let reply = look_up(keys, *with_cas, out, |key| {
                let found = store.gat(asker, now, key, *exptime)?;
                if found.is_some() {
                    asker = &committed;
                }
                Ok(found)
            })?;
            ctx.charge(committed.charged());
            reply
        }
        Command::Store { mode, key, value, flags, exptime, .. } => {
            let entry = Entry { key, value, flags: *flags, exptime: *exptime };
            store
                .store(ctx, now, *mode, &entry)
                .map_or_else(store_error, |done| Ok(store_outcome(done)))?
        }
        Command::StoreTooLarge { mode, key, .. } => {
            if *mode == StoreMode::Set {
                store.discard(now, key);
            }
            Reply::TooLarge
        }
        Command::Delete { key, .. } => either(store.delete(ctx, now, key)?, Reply::Deleted),
        Command::Arithmetic { operation, key, delta, .. } => {
            arithmetic(store, ctx, now, *operation, key, *delta)?
        }
        Command::Touch { key, exptime, .. } => {
            either(store.touch(ctx, now, key, *exptime)?, Reply::Touched)
        }
        Command::Stats { topic } => write_stats(store, now, topic, out),
        Command::FlushAll { delay, .. } => {
            store.flush_all(now, delay.deadline(now).unwrap_or(now));
            Reply::Ok
        }
        Command::Version => Reply::Version,
        Command::Verbosity { .. } => Reply::Ok,
        Command::Quit => return Ok(Connection::Close),
    };
    if !command.noreply() {
        reply.write(out);
    }
    Ok(Connection::Keep)
}

/// Appends what is found, and returns the line that ends the reply.
fn look_up(
    keys: &Keys,
    with_cas: bool,
    out: &mut BytesMut,
    mut find: impl FnMut(&[u8]) -> Result<Option<Value>, Rejected>,
) -> Result<Reply, Rejected> {
    let start = out.len();
    for key in keys.iter() {
        let Some(value) = find(key).inspect_err(|_| out.truncate(start))? else { continue };
        response::value(out, key, &value, with_cas);
        if out.len() - start > REPLY_BYTES_MAX {
            out.truncate(start);
            return Ok(Reply::ReplyTooLarge);
        }
    }
    Ok(Reply::End)
}

fn arithmetic(
    store: &Store,
    ctx: &Context,
    now: UnixTime,
    operation: Arithmetic,
    key: &[u8],
    delta: u64,
) -> Result<Reply, Rejected> {
    let result = match operation {
        Arithmetic::Increment => store.incr(ctx, now, key, delta),
        Arithmetic::Decrement => store.decr(ctx, now, key, delta),
    };
    match result {
        Ok(Some(number)) => Ok(Reply::Number(number)),
        Ok(None) => Ok(Reply::NotFound),
        Err(ArithmeticError::NotNumeric) => Ok(Reply::NotNumeric),
        Err(ArithmeticError::Store(error)) => store_error(error),
    }
}

fn either(found: bool, reply: Reply) -> Reply {
    if found { reply } else { Reply::NotFound }
}

fn store_outcome(outcome: StoreOutcome) -> Reply {
    match outcome {
        StoreOutcome::Stored => Reply::Stored,
        StoreOutcome::NotStored => Reply::NotStored,
        StoreOutcome::Exists => Reply::Exists,
        StoreOutcome::NotFound => Reply::NotFound,
    }
}

fn store_error(error: StoreError) -> Result<Reply, Rejected> {
    match error {
        StoreError::Rejected(rejected) => Err(rejected),
        StoreError::OutOfMemory => Ok(Reply::OutOfMemory),
        // The parser has checked the key; a key alone is never too large either.
        StoreError::KeyLength { .. } | StoreError::TooLarge { .. } => Ok(Reply::TooLarge),
    }
}

/// Appends the statistics of `topic`, and returns the line that ends them.
fn write_stats(store: &Store, now: UnixTime, topic: &[u8], out: &mut BytesMut) -> Reply {
    match topic {
        b"" => write_general_stats(&store.stats(), now, out),
        b"slabs" => write_class_stats(store, out),
        _ => return Reply::Error,
    }
    Reply::End
}

fn write_general_stats(stats: &Stats, now: UnixTime, out: &mut BytesMut) {
    response::stat(out, "time", now.as_secs());
    response::stat(out, "version", VERSION);
    response::stat(out, "pointer_size", usize::BITS);
    let numbers = [
        ("cmd_get", stats.cmd_get),
        ("cmd_set", stats.cmd_set),
        ("cmd_flush", stats.cmd_flush),
        ("cmd_touch", stats.cmd_touch),
        ("get_hits", stats.get_hits),
        ("get_misses", stats.get_misses),
        ("delete_misses", stats.delete_misses),
        ("delete_hits", stats.delete_hits),
        ("incr_misses", stats.incr_misses),
        ("incr_hits", stats.incr_hits),
        ("decr_misses", stats.decr_misses),
        ("decr_hits", stats.decr_hits),
        ("cas_misses", stats.cas_misses),
        ("cas_hits", stats.cas_hits),
        ("cas_badval", stats.cas_badval),
        ("touch_hits", stats.touch_hits),
        ("touch_misses", stats.touch_misses),
        ("limit_maxbytes", stats.limit_maxbytes),
        ("hash_power_level", u64::from(stats.hash_buckets.ilog2())),
        ("hash_buckets", stats.hash_buckets),
        ("total_page_bytes", stats.page_bytes),
        ("bytes", stats.bytes),
        ("curr_items", stats.curr_items),
        ("total_items", stats.total_items),
        ("evictions", stats.evictions),
        ("expired", stats.expired),
        ("flushed", stats.flushed),
    ];
    for (name, number) in numbers {
        response::stat(out, name, number);
    }
}

fn write_class_stats(store: &Store, out: &mut BytesMut) {
    let classes = store.class_stats();
    for class in &classes {
        let numbers = [
            ("chunk_size", class.chunk_bytes),
            ("total_pages", class.pages),
            ("total_chunks", class.chunks_used + class.chunks_free),
            ("used_chunks", class.chunks_used),
            ("free_chunks", class.chunks_free),
        ];
        for (name, number) in numbers {
            response::stat(out, format_args!("{}:{name}", class.class), number);
        }
    }
    response::stat(out, "active_slabs", classes.len());
    response::stat(out, "total_malloced", store.stats().page_bytes);
}
