//! The limits that are simulated.

use super::*;

/// What the models of the list are made of.
struct Numbers {
    units: u64,
    period: u64,
    burst: u64,
    precision: u64,
}

fn of<L: Rule>(
    given: Given<'_>,
    rule: fn(Quota, u64, Duration) -> L,
    models: impl Fn(Numbers) -> Vec<Box<dyn tollgate_algorithms::Model>>,
) -> Result<Counts, String> {
    let (of_all, plans, steps) = given.case;
    let [_, precision, lease_time, ahead @ ..] = *of_all;
    let period = 4 * precision;
    let plans = plans.map(|[units, burst]| {
        let quota = Quota::new(units, Duration::from_micros(period));
        let rule = rule(quota, burst, Duration::from_micros(precision));
        let numbers = Numbers {
            units,
            period,
            burst,
            precision,
        };
        let models = models(numbers).into_iter();
        (rule, models.map(|it| it.bound(24)).collect())
    });
    World::new(given, plans, lease_time).run(&ahead, steps)
}

/// Every algorithm of the list whose units can be held, and tuples.
pub(super) fn rules() -> Vec<(&'static str, Run)> {
    macro_rules! rules {
        (
            ($quota:ident, $burst:ident, $precision:ident, $interval:ident)
            $($name:literal, $rule:expr, $model:ident($($number:ident),*);)+
        ) => {
            vec![$(($name, |given| {
                let rule = |$quota, $burst, $precision| {
                    let _ = ($burst, $precision);
                    $rule.named("a")
                };
                of(given, rule, |numbers| {
                    vec![tollgate_algorithms::$model($(numbers.$number),*)]
                })
            })),+]
        };
    }
    let mut rules: Vec<(_, Run)> = every_additive!(rules, quota, burst, precision);
    rules.push(("bucket and window", |given| {
        let rule = |quota, burst, _| {
            let bucket = TokenBucket::new(quota).burst(burst).named("a");
            (bucket, FixedWindow::new(quota).named("b"))
        };
        of(given, rule, |it| {
            let bucket = debt_bucket(it.units, it.period, it.burst);
            vec![bucket, fixed_window(it.units, it.period)]
        })
    }));
    rules.push(("log and sliding window", |given| {
        let rule = |quota, burst, precision| {
            let log = SlidingLog::new(Quota::new(burst, precision * 8)).named("a");
            (log, SlidingWindow::new(quota).named("b"))
        };
        of(given, rule, |it| {
            let log = sliding_log(it.burst, 2 * it.period);
            vec![log, sliding_window(it.units, it.period)]
        })
    }));
    rules
}
