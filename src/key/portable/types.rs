//! The parts that each type writes.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZero,
    sync::Arc,
};

use bytes::Bytes;

use super::{KeyParts, PortableKey};

/// The text if it is short, else its digest.
impl PortableKey for str {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.text(self);
    }
}

/// As [`str`].
impl PortableKey for String {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.text(self);
    }
}

/// As the text that it is.
impl PortableKey for char {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.text(self.encode_utf8(&mut [0; 4]));
    }
}

/// As the text that it is.
#[cfg(feature = "layer")]
impl PortableKey for http::Method {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.text(self.as_str());
    }
}

/// The bytes if they are few, else their digest.
impl PortableKey for [u8] {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.bytes(self);
    }
}

/// As a slice of bytes.
impl<const N: usize> PortableKey for [u8; N] {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.bytes(self);
    }
}

/// As a slice of bytes.
impl PortableKey for Vec<u8> {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.bytes(self);
    }
}

/// As a slice of bytes.
impl PortableKey for Bytes {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.bytes(self);
    }
}

/// As `n;` alone.
impl PortableKey for () {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.absent();
    }
}

/// As the number 0 or 1.
impl PortableKey for bool {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.number(*self);
    }
}

impl PortableKey for IpAddr {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.address(*self);
    }
}

impl PortableKey for Ipv4Addr {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.address(*self);
    }
}

impl PortableKey for Ipv6Addr {
    fn write_to(&self, parts: &mut KeyParts) {
        parts.address(*self);
    }
}

/// `None` as `n;`, `Some` as `o;` and its value.
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

// The types differ only in their names. A cast widens each of them, even `usize` and `isize`, which
// have no `From`.
macro_rules! integers {
    ($($method:ident as $Widest:ident: $($Int:ident)+;)+) => {
        $($(
            impl PortableKey for $Int {
                fn write_to(&self, parts: &mut KeyParts) {
                    parts.$method(*self as $Widest);
                }
            }

            impl PortableKey for NonZero<$Int> {
                fn write_to(&self, parts: &mut KeyParts) {
                    parts.$method(self.get() as $Widest);
                }
            }
        )+)+
    };
}

integers! {
    number as u128: u8 u16 u32 u64 u128 usize;
    signed as i128: i8 i16 i32 i64 i128 isize;
}

// As long as the tuples of extractors are.
macro_rules! tuple {
    ($($Member:ident $member:ident),+) => {
        /// The parts of the members, in their order.
        impl<$($Member: PortableKey),+> PortableKey for ($($Member,)+) {
            fn write_to(&self, parts: &mut KeyParts) {
                let ($($member,)+) = self;
                $($member.write_to(parts);)+
            }
        }
    };
}

tuple!(A a, B b);
tuple!(A a, B b, C c);
tuple!(A a, B b, C c, D d);
tuple!(A a, B b, C c, D d, E e);
tuple!(A a, B b, C c, D d, E e, F f);
