// SPDX-License-Identifier: Apache-2.0
// A load for the stacks line: a tree of calls, with sorting, strings, JSON and garbage at its ends.
"use strict";

const words = (x) => {
  const seen = new Map();
  for (let i = 0; i < 40; i++) {
    const word = `word ${(Math.floor(x * 1000) + i * i) % 17}`;
    seen.set(word, (seen.get(word) || 0) + 1);
  }
  return JSON.stringify([...seen]).length;
};

const sorted = (x) => {
  const values = Array.from({ length: 200 }, (_, i) => (x * (i + 7) * 1.37) % 1);
  return values.sort((a, b) => a - b)[100];
};

class Sum {
  constructor(left, right) {
    this.left = left;
    this.right = right;
  }
  value(x) {
    return this.left(x * 0.99) + (this.right instanceof Sum ? this.right.value(x * 0.5) : this.right(x * 0.5));
  }
}

const tree = (depth) => (depth === 0 ? words : new Sum(depth % 2 === 0 ? words : sorted, tree(depth - 1)));

const root = tree(20);
let sum = 0;
for (let i = 0; sum < 1e300; i++) sum += root.value((i % 10) + 0.5);
