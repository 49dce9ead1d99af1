use super::*;

fn asked(question: Value) -> Value {
    serde_json::from_str(&answer(&question.to_string())).unwrap()
}

fn bucket() -> Value {
    json!({ "algorithm": "token-bucket", "quota": "40/min", "burst": 10 })
}

fn forty_a_minute() -> Value {
    json!({ "shape": "bursts", "requests": 40, "every": "1min", "lasts": "5min" })
}

#[test]
fn a_run_tells_all_of_each_limit() {
    let limits = [
        bucket(),
        json!({ "algorithm": "sliding-log", "quota": "1/fortnight" }),
    ];
    let output = asked(json!({ "ask": "run", "limits": limits, "traffic": forty_a_minute() }));
    assert_eq!(output["requests"]["at"].as_array().unwrap().len(), 200);
    let run = &output["limits"][0];
    assert_eq!(
        run["rust"],
        "TokenBucket::new(Quota::per_minute(40)).burst(10)"
    );
    assert_eq!(run["numbers"]["admitted"], 50);
    assert_eq!(run["numbers"]["refused"], 150);
    assert_eq!(run["numbers"]["retryAfter"], 2);
    assert_eq!(run["numbers"]["longestWait"], "1.5 s");
    assert_eq!(run["bound"]["most"], 49);
    assert_eq!(run["worst"]["most"], 10);
    assert_eq!(run["outcome"][10], 2);
    let error = output["limits"][1]["error"].as_str().unwrap();
    assert!(error.contains("fortnight"));
}

#[test]
fn a_client_who_sends_40_at_once_each_minute_needs_a_burst_of_40() {
    let ask = |quota| {
        let limit = json!({ "algorithm": "token-bucket", "quota": quota });
        let question = json!({ "ask": "run", "limits": [limit], "traffic": forty_a_minute() });
        asked(question)["limits"][0]["smallestBurst"].clone()
    };
    assert_eq!(ask("40/min"), 40);
    assert_eq!(ask("400/min"), 40);
    // What does not come back in a minute is refused in the end, whatever the burst.
    assert_eq!(ask("30/min"), Value::Null);
}

#[test]
fn no_span_of_any_traffic_passes_the_bound_of_any_algorithm() {
    for shape in ["even", "bursts", "edge", "zipf", "flood"] {
        for (requests, cost) in [(3, 1), (10, 1), (13, 3), (40, 2)] {
            let traffic = json!({
                "shape": shape, "requests": requests, "every": "1s", "lasts": "8s",
                "cost": cost, "callers": 3, "shared": true, "runs": "350ms",
            });
            let question =
                json!({ "ask": "compare", "quota": "10/s", "burst": 7, "traffic": traffic });
            for row in asked(question)["rows"].as_array().unwrap() {
                let bound = row["bound"]["most"].as_u64().unwrap();
                assert!(row["worst"].as_u64().unwrap() <= bound, "{shape}: {row}");
            }
        }
    }
}

#[test]
fn no_member_of_a_tuple_passes_its_bound_and_the_tuple_admits_no_more_than_each() {
    let members = [
        json!({ "algorithm": "token-bucket", "quota": "10/s", "burst": 7 }),
        json!({ "algorithm": "token-bucket", "quota": "30/s", "settled": true }),
        json!({ "algorithm": "fixed-window", "quota": "60/min" }),
        json!({ "algorithm": "sliding-log", "quota": "12/s", "per-request": true }),
        json!({ "algorithm": "leaky-bucket-queue", "quota": "10/s", "capacity": 30 }),
        json!({ "algorithm": "gcra", "quota": "5/s", "burst": 9, "wait-at-most": "900ms" }),
        json!({ "algorithm": "in-flight", "requests": 4 }),
        json!({ "algorithm": "min-interval", "interval": "70ms" }),
    ];
    let pairs = members
        .iter()
        .flat_map(|one| members.iter().map(move |other| json!([one, other])));
    let tuples: Vec<_> = pairs.chain([json!(members[..3])]).collect();
    let mut reached = 0;
    for shape in ["even", "bursts", "edge", "zipf", "flood"] {
        let traffic = json!({
            "shape": shape, "requests": 13, "every": "1s", "lasts": "8s", "cost": 2, "spends": 1,
            "callers": 2, "shared": true, "runs": "350ms",
        });
        let question = json!({ "ask": "run", "limits": tuples, "traffic": traffic });
        for (run, tuple) in asked(question)["limits"]
            .as_array()
            .unwrap()
            .iter()
            .zip(&tuples)
        {
            let members = run["members"].as_array().unwrap();
            assert_eq!(members.len(), tuple.as_array().unwrap().len(), "{run}");
            for member in members {
                let bound = member["bound"]["most"].as_u64().unwrap();
                let worst = member["worst"].as_u64().unwrap();
                assert!(worst <= bound, "{shape}: {tuple}: {member}");
                reached += usize::from(worst == bound);
            }
        }
    }
    assert!(reached > 100, "{reached}");
}

#[test]
fn what_is_left_is_told_of_any_span_of_time() {
    let traffic = forty_a_minute();
    let far = u64::MAX;
    for (from, until) in [(0, far), (far, far), (far, 0), (1 << 53, 1 << 54)] {
        let question = json!({
            "ask": "left", "limits": [bucket()], "traffic": traffic, "bucket": 0,
            "from": from, "until": until, "steps": 4_000,
        });
        let output = asked(question);
        let left = output["limits"][0]["left"].as_array().unwrap();
        assert_eq!(left.len(), 4_000, "{from} {until}");
        assert_eq!(left.last().unwrap(), 10, "{from} {until}");
    }
}

#[test]
fn what_is_no_question_is_an_error() {
    for question in [json!({}), json!({ "ask": "price" }), json!([])] {
        assert!(asked(question)["error"].is_string());
    }
}
