//! The parts that each type writes.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use bytes::Bytes;

use super::{KeyParts, PortableKey};

/// A key of each of these types is one part.
macro_rules! one_part {
    ($($(#[$meta:meta])* $Key:ty: |$key:ident| $method:ident($value:expr);)+) => {$(
        $(#[$meta])*
        impl PortableKey for $Key {
            fn write_to(&self, parts: &mut KeyParts) {
                let $key = self;
                parts.$method($value);
            }
        }
    )+};
}

one_part! {
    /// The text if it is short, else its digest.
    str: |text| text(text);
    /// As [`str`].
    String: |text| text(text);
    /// As the text that it is.
    char: |letter| text(letter.encode_utf8(&mut [0; 4]));
    /// As the text that it is.
    #[cfg(feature = "layer")]
    http::Method: |method| text(method.as_str());
    /// The bytes if they are few, else their digest.
    [u8]: |bytes| bytes(bytes);
    /// As a slice of bytes.
    Vec<u8>: |bytes| bytes(bytes);
    /// As a slice of bytes.
    Bytes: |bytes| bytes(bytes);
    /// As the number 0 or 1.
    bool: |yes| number(*yes);
    u8: |number| number(*number);
    u16: |number| number(*number);
    u32: |number| number(*number);
    u64: |number| number(*number);
    u128: |number| number(*number);
    usize: |number| number(*number as u128);
    i8: |number| signed(*number);
    i16: |number| signed(*number);
    i32: |number| signed(*number);
    i64: |number| signed(*number);
    i128: |number| signed(*number);
    isize: |number| signed(*number as i128);
    IpAddr: |ip| address(*ip);
    Ipv4Addr: |ip| address(*ip);
    Ipv6Addr: |ip| address(*ip);
}

impl<const N: usize> PortableKey for [u8; N] {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.bytes(self);
    }
}

impl PortableKey for () {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.absent();
    }
}

impl<T: PortableKey> PortableKey for Option<T> {
    fn write_to(&self, parts: &mut KeyParts) {
        match self {
            Some(value) => value.write_to(parts.present()),
            None => {
                parts.absent();
            }
        }
    }
}

/// As what it refers to.
impl<T: PortableKey + ?Sized> PortableKey for &T {
    fn write_to(&self, parts: &mut KeyParts) {
        (**self).write_to(parts);
    }
}

/// As what is in it.
impl<T: PortableKey + ?Sized> PortableKey for Box<T> {
    fn write_to(&self, parts: &mut KeyParts) {
        (**self).write_to(parts);
    }
}

/// As what is in it.
impl<T: PortableKey + ?Sized> PortableKey for Arc<T> {
    fn write_to(&self, parts: &mut KeyParts) {
        (**self).write_to(parts);
    }
}

/// As what is in it, borrowed or owned.
impl<T: PortableKey + ToOwned + ?Sized> PortableKey for Cow<'_, T> {
    fn write_to(&self, parts: &mut KeyParts) {
        (**self).write_to(parts);
    }
}

macro_rules! tuple {
    ($count:literal: $($Member:ident $Key:ident $place:tt),+) => {
        /// The parts of the members, in their order.
        impl<$($Member: PortableKey),+> PortableKey for ($($Member,)+) {
            fn write_to(&self, parts: &mut KeyParts) {
                $(self.$place.write_to(parts);)+
            }
        }
    };
}

two_to_six!(tuple);
