pub struct LocalStore;
pub struct LocalStoreBuilder;
