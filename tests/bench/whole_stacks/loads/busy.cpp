// SPDX-License-Identifier: Apache-2.0
// A load for the stacks line: a tree of virtual calls, some 20 frames deep, with work in libm and libstdc++ at its
// ends.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node() = default;
  virtual double value(double x) const = 0;
};

struct Sine : Node {
  double value(double x) const override { return std::sin(x) + std::pow(x, 0.3); }
};

struct Words : Node {
  double value(double x) const override {
    std::map<std::string, int> seen;
    for (int i = 0; i < 40; ++i) ++seen["word " + std::to_string((static_cast<int>(x * 1000) + i * i) % 17)];
    return seen.begin()->second;
  }
};

struct Sorted : Node {
  double value(double x) const override {
    std::vector<double> values(200);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::fmod(x * static_cast<double>(i + 7) * 1.37, 1.0);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
};

struct Sum : Node {
  Sum(std::unique_ptr<Node> a, std::unique_ptr<Node> b) : left(std::move(a)), right(std::move(b)) {}
  double value(double x) const override { return left->value(x * 0.99) + right->value(x * 0.5); }
  std::unique_ptr<Node> left, right;
};

std::unique_ptr<Node> tree(int depth) {
  if (depth == 0) return std::make_unique<Sine>();
  std::unique_ptr<Node> end;
  if (depth % 2 == 0)
    end = std::make_unique<Words>();
  else
    end = std::make_unique<Sorted>();
  return std::make_unique<Sum>(std::move(end), tree(depth - 1));
}

}  // namespace

int main() {
  const auto root = tree(30);
  double sum = 0;
  for (int i = 0; sum < 1e300; ++i) sum += root->value(i % 10 + 0.5);
  return sum > 0 ? 0 : 1;
}
