//! Every decision, in every field, is the slow model's.

use tollgate_properties::{
    claims::every_decision_is_the_models, conformance::every_algorithm, for_all,
    history::any_history, numbers::numbers,
};

#[test]
fn every_decision_is_the_slow_models_in_every_field() {
    for_all((numbers(), any_history()), |(numbers, history)| {
        every_algorithm(&numbers)
            .iter()
            .try_for_each(|subject| every_decision_is_the_models(subject, &history))
    });
}
