//! What a request costs: a number, a closure over the request, or a table by method and route.
