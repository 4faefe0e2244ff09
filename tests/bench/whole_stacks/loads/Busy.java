// SPDX-License-Identifier: Apache-2.0
// A load for the stacks line: a tree of interface calls, with sorting, maps and garbage at its ends.
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

public class Busy {
  interface Node {
    double value(double x);
  }

  static class Words implements Node {
    public double value(double x) {
      Map<String, Integer> seen = new HashMap<>();
      for (int i = 0; i < 40; i++) seen.merge("word " + ((int) (x * 1000) + i * i) % 17, 1, Integer::sum);
      return seen.size();
    }
  }

  static class Sorted implements Node {
    public double value(double x) {
      Double[] values = new Double[200];
      for (int i = 0; i < values.length; i++) values[i] = (x * (i + 7) * 1.37) % 1;
      Arrays.sort(values, (a, b) -> a.compareTo(b));
      return values[100];
    }
  }

  static class Sum implements Node {
    final Node left, right;

    Sum(Node left, Node right) {
      this.left = left;
      this.right = right;
    }

    public double value(double x) {
      return left.value(x * 0.99) + right.value(x * 0.5);
    }
  }

  static Node tree(int depth) {
    if (depth == 0) return new Words();
    return new Sum(depth % 2 == 0 ? new Words() : new Sorted(), tree(depth - 1));
  }

  public static void main(String[] args) {
    Node root = tree(30);
    double sum = 0;
    for (int i = 0; sum < 1e300; i++) sum += root.value(i % 10 + 0.5);
    System.out.println(sum);
  }
}
