//! What HotSpot says of its own memory: `gHotSpotVMStructs`, made for the serviceability agent.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use thiserror::Error;

/// Names of fields, and where they are.
#[derive(Debug)]
pub(crate) struct Structs {
    fields: HashMap<(&'static str, &'static str), Place>,
    constants: HashMap<&'static str, i32>,
    sizes: HashMap<&'static str, usize>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Bytes from the begin of the object.
    Offset(usize),
    /// An address.
    Static(usize),
}

/// What a virtual machine does not say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("this Java does not say where {0} is")]
pub(crate) struct Unknown(String);

impl Unknown {
    pub(crate) fn heap() -> Self {
        Self("its heap".into())
    }

    pub(crate) fn counters() -> Self {
        Self("what its collectors count (it may run with -XX:-UsePerfData)".into())
    }
}

/// `VMStructEntry`.
#[repr(C)]
struct StructEntry {
    type_name: *const c_char,
    field_name: *const c_char,
    type_string: *const c_char,
    is_static: i32,
    offset: u64,
    address: usize,
}

/// `VMTypeEntry`.
#[repr(C)]
struct TypeEntry {
    type_name: *const c_char,
    superclass: *const c_char,
    flags: [c_int; 3],
    size: u64,
}

/// `VMIntConstantEntry`.
#[repr(C)]
struct ConstantEntry {
    name: *const c_char,
    value: i32,
}

impl Structs {
    /// Reads the tables of the virtual machine in this process.
    pub(crate) fn read() -> Result<Self, Unknown> {
        let mut it =
            Self { fields: HashMap::new(), constants: HashMap::new(), sizes: HashMap::new() };
        for entry in table::<StructEntry>(c"gHotSpotVMStructs")? {
            let (Some(name), Some(field)) = (text(entry.type_name), text(entry.field_name)) else {
                continue;
            };
            let place = if entry.is_static == 0 {
                Place::Offset(entry.offset as usize)
            } else {
                Place::Static(entry.address)
            };
            it.fields.insert((name, field), place);
        }
        for entry in table::<ConstantEntry>(c"gHotSpotVMIntConstants")? {
            it.constants.extend(text(entry.name).map(|name| (name, entry.value)));
        }
        for entry in table::<TypeEntry>(c"gHotSpotVMTypes")? {
            it.sizes.extend(text(entry.type_name).map(|name| (name, entry.size as usize)));
        }
        Ok(it)
    }

    /// Bytes from the begin of an object to a field of it. Of several names of the type, which
    /// versions call differently, the first that there is.
    pub(crate) fn offset(&self, types: &[&'static str], field: &'static str) -> Found {
        let places = types.iter().filter_map(|name| self.fields.get(&(*name, field)));
        let mut offsets = places.filter_map(|place| match place {
            Place::Offset(offset) => Some(*offset),
            Place::Static(_) => None,
        });
        offsets.next().ok_or_else(|| Unknown(format!("{}::{field}", types[0])))
    }

    /// The address of a static field.
    pub(crate) fn address(&self, name: &'static str, field: &'static str) -> Found {
        match self.fields.get(&(name, field)) {
            Some(Place::Static(address)) if *address != 0 => Ok(*address),
            _ => Err(Unknown(format!("{name}::{field}"))),
        }
    }

    /// The value of a constant.
    pub(crate) fn constant(&self, names: &[&'static str]) -> Result<i32, Unknown> {
        let mut values = names.iter().filter_map(|name| self.constants.get(name));
        values.next().copied().ok_or_else(|| Unknown(names[0].into()))
    }

    /// Bytes of a type.
    pub(crate) fn size(&self, name: &'static str) -> Found {
        self.sizes.get(name).copied().ok_or_else(|| Unknown(name.into()))
    }
}

/// An address, or a distance in bytes.
type Found = Result<usize, Unknown>;

/// The value of `T` at an address.
///
/// # Safety
///
/// There is one, whoever writes it.
pub(crate) unsafe fn at<T: Copy>(address: usize) -> T {
    // SAFETY: the caller's promise. Others may write it, so that it is read as it is.
    unsafe { ptr::read_volatile(address as *const T) }
}

/// The text at an address.
///
/// # Safety
///
/// It is one that ends with a zero and lives as long as the virtual machine.
pub(crate) unsafe fn text_at(address: usize) -> Option<&'static str> {
    text(address as *const c_char)
}

/// The entries of an exported table, up to one without a name.
fn table<T>(symbol: &'static CStr) -> Result<&'static [T], Unknown> {
    let unknown = || Unknown(symbol.to_string_lossy().into_owned());
    let address = find(symbol).ok_or_else(unknown)?;
    // SAFETY: the symbol is a pointer to an array of such entries, whose layout is part of what the
    // serviceability agent relies on. It ends with an entry whose first word is null.
    unsafe {
        let first: *const T = at(address as usize);
        let mut count = 0;
        while !first.is_null() && !at::<*const c_char>(first.add(count) as usize).is_null() {
            count += 1;
        }
        if count == 0 {
            return Err(unknown());
        }
        Ok(std::slice::from_raw_parts(first, count))
    }
}

/// Where the virtual machine has a symbol.
fn find(symbol: &CStr) -> Option<*const c_void> {
    // SAFETY: the library is only asked for, not loaded; both names end with a zero.
    let address = unsafe {
        let library = libc::dlopen(c"libjvm.so".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_NOW);
        let library = if library.is_null() { libc::RTLD_DEFAULT } else { library };
        libc::dlsym(library, symbol.as_ptr())
    };
    (!address.is_null()).then_some(address.cast_const())
}

fn text(text: *const c_char) -> Option<&'static str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: names in the tables are literals of the virtual machine.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}
