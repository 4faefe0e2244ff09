// SPDX-License-Identifier: Apache-2.0
// A load for the stacks line: a tree of dynamic calls, with sorting and strings at its ends, on the main thread and another.
use std::collections::HashMap;

trait Node {
    fn value(&self, x: f64) -> f64;
}

struct Words;
struct Sorted;
struct Sum(Box<dyn Node>, Box<dyn Node>);

impl Node for Words {
    fn value(&self, x: f64) -> f64 {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for i in 0..40usize {
            *seen.entry(format!("word {}", ((x * 1000.0) as usize + i * i) % 17)).or_insert(0) += 1;
        }
        seen.len() as f64
    }
}

impl Node for Sorted {
    fn value(&self, x: f64) -> f64 {
        let mut values: Vec<f64> = (0..200).map(|i| (x * (i + 7) as f64 * 1.37).fract()).collect();
        values.sort_by(|a, b| a.partial_cmp(b).unwrap());
        values[100]
    }
}

impl Node for Sum {
    fn value(&self, x: f64) -> f64 {
        self.0.value(x * 0.99) + self.1.value(x * 0.5)
    }
}

fn tree(depth: usize) -> Box<dyn Node> {
    match depth {
        0 => Box::new(Words),
        n if n % 2 == 0 => Box::new(Sum(Box::new(Words), tree(n - 1))),
        n => Box::new(Sum(Box::new(Sorted), tree(n - 1))),
    }
}

fn work() {
    let root = tree(20);
    let mut sum = 0.0;
    let mut i = 0u64;
    while sum < 1e300 {
        sum += root.value((i % 10) as f64 + 0.5);
        i += 1;
    }
}

fn main() {
    let other = std::thread::spawn(work);
    work();
    other.join().unwrap();
}
