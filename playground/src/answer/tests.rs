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
    let told = asked(json!({ "ask": "run", "limits": limits, "traffic": forty_a_minute() }));
    assert_eq!(told["requests"]["at"].as_array().unwrap().len(), 200);
    let run = &told["limits"][0];
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
    assert!(
        told["limits"][1]["error"]
            .as_str()
            .unwrap()
            .contains("fortnight")
    );
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
    // What does not come back in a minute must be there from the beginning.
    assert_eq!(ask("30/min"), 80);
}

#[test]
fn the_table_shows_which_algorithm_lets_2n_through_at_an_edge() {
    let traffic = json!({ "shape": "edge", "requests": 10, "every": "1s", "lasts": "4s" });
    let told = asked(json!({ "ask": "compare", "quota": "10/s", "traffic": traffic }));
    let rows = told["rows"].as_array().unwrap();
    let twice = rows.iter().filter(|row| row["worst"] == 20);
    let twice: Vec<_> = twice.map(|row| row["rust"].as_str().unwrap()).collect();
    assert_eq!(twice, ["FixedWindow::new(Quota::per_second(10))"]);
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
            let told = run["members"].as_array().unwrap();
            assert_eq!(told.len(), tuple.as_array().unwrap().len(), "{run}");
            for member in told {
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
fn of_a_tuple_the_member_that_comes_closest_to_its_bound_is_the_one_that_is_drawn() {
    let limit = json!([
        { "algorithm": "token-bucket", "quota": "40/min", "burst": 10 },
        { "algorithm": "fixed-window", "quota": "60/h" },
        { "algorithm": "sliding-log", "quota": "20/min" },
    ]);
    let traffic = forty_a_minute();
    let told = asked(json!({ "ask": "run", "limits": [limit], "traffic": traffic }));
    let run = &told["limits"][0];
    let members: Vec<_> = run["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["worst"])
        .collect();
    // 10 in each of the five minutes.
    assert_eq!(members, [&json!(10), &json!(50), &json!(10)]);
    assert_eq!(
        (&run["worst"]["most"], &run["bound"]["most"]),
        (&json!(10), &json!(20))
    );
    assert_eq!(run["bound"]["formula"], "n");
    // There is more than one burst that it may need.
    assert_eq!(run["smallestBurst"], Value::Null);
    assert_eq!(run["limit"], 10);
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
        let told = asked(question);
        let left = told["limits"][0]["left"].as_array().unwrap();
        assert_eq!(left.len(), 4_000, "{from} {until}");
        assert_eq!(left.last().unwrap(), 10, "{from} {until}");
    }
}

#[test]
fn what_is_held_and_not_spent_lets_others_through() {
    let limit = |settled: bool| json!({ "algorithm": "token-bucket", "quota": "1000/min", "settled": settled });
    let traffic = json!({
        "shape": "even", "requests": 2, "every": "1s", "lasts": "6s", "cost": 300, "spends": 90,
        "runs": "700ms",
    });
    let limits = [limit(false), limit(true)];
    let told = asked(json!({ "ask": "run", "limits": limits, "traffic": traffic }));
    let admitted = |which: usize| &told["limits"][which]["numbers"]["admitted"];
    assert_eq!((admitted(0), admitted(1)), (&json!(3), &json!(9)));
    let settled = &told["limits"][1];
    assert_eq!(
        settled["rust"],
        "TokenBucket::new(Quota::per_minute(1000)).settled()"
    );
    assert_eq!(settled["bound"]["counts"], "units spent");
    assert_eq!(settled["worst"]["most"], 9 * 90);
}

#[test]
fn a_request_that_was_chosen_is_told_why_and_what_is_left_is_told_of_its_bucket() {
    let question = |ask: &str, more: Value| {
        let mut question = json!({ "ask": ask, "limits": [bucket()], "traffic": forty_a_minute() });
        for (field, value) in more.as_object().unwrap() {
            question[field] = value.clone();
        }
        asked(question)
    };
    let told = question("why", json!({ "index": 10 }));
    let why = told["limits"][0]["why"].as_str().unwrap();
    assert!(
        why.starts_with("Refused: it costs 1, and 0 of 10 are left."),
        "{why}"
    );
    let error = question("why", json!({ "index": 200 }));
    assert_eq!(error["error"], "there is no request with index 200");
    let more = json!({ "bucket": 0, "from": 0, "until": 30_000_000, "steps": 2 });
    assert_eq!(question("left", more)["limits"][0]["left"], json!([0, 10]));
}

#[test]
fn a_recording_of_another_year_begins_where_it_begins() {
    let recording = "1700000000.5\n1700000002";
    let traffic = json!({ "shape": "recording", "recording": recording });
    let told = asked(json!({ "ask": "run", "limits": [bucket()], "traffic": traffic }));
    assert_eq!(told["requests"]["at"], json!([500_000, 2_000_000]));
    assert_eq!(told["limits"][0]["worst"]["until"], 2_000_000);
}

#[test]
fn what_is_no_question_is_an_error() {
    for question in [json!({}), json!({ "ask": "price" }), json!([])] {
        assert!(asked(question)["error"].is_string());
    }
}
