//! What a layer does besides counting.

use crate::{exempt::NoExemption, response::Http, store_error::OnStoreError};

use super::Hidden;

/// What a layer does besides counting; the layer's setters change it.
#[derive(Debug, Clone)]
pub struct Options<
    CostFn = u32,
    Resp = Http,
    ExemptFn = NoExemption,
    OnError = OnStoreError,
    Expose = Hidden,
> {
    pub(super) cost: CostFn,
    pub(super) respond: Resp,
    pub(super) exempt: ExemptFn,
    pub(super) on_store_error: OnError,
    pub(super) expose: Expose,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cost: 1,
            respond: Http::default(),
            exempt: NoExemption,
            on_store_error: OnStoreError::default(),
            expose: Hidden,
        }
    }
}

/// Makes a method for each option that replaces it by one of another type: `Options { cost,
/// ..self }` would have to keep its type.
macro_rules! replaceable {
    ([$($before:ident: $Before:ident,)*]) => {};
    ([$($before:ident: $Before:ident,)*] $field:ident: $Field:ident, $($after:ident: $After:ident,)*) => {
        impl<$($Before,)* $Field, $($After,)*> Options<$($Before,)* $Field, $($After,)*> {
            pub(super) fn $field<New>(self, $field: New) -> Options<$($Before,)* New, $($After,)*> {
                Options { $($before: self.$before,)* $field, $($after: self.$after,)* }
            }
        }
        replaceable!([$($before: $Before,)* $field: $Field,] $($after: $After,)*);
    };
}

replaceable!([] cost: C, respond: R, exempt: X, on_store_error: E, expose: D,);
