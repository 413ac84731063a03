// SPDX-License-Identifier: Apache-2.0
#include "neuron/fuse/axes.h"

#include <algorithm>

namespace neuron {

int AxisTable::add(int node, int dim, int64_t size) {
  axes_.push_back({size, node, dim, -1, -1});
  return static_cast<int>(axes_.size()) - 1;
}

int AxisTable::find(int axis) const {
  while (axes_[static_cast<size_t>(axis)].same >= 0) axis = axes_[static_cast<size_t>(axis)].same;
  return axis;
}

int AxisTable::split(int axis, int inner) {
  const int64_t size = axes_[static_cast<size_t>(axis)].size;
  axes_.push_back({size / axes_[static_cast<size_t>(inner)].size, -1, -1, axis, inner});
  const int outer = static_cast<int>(axes_.size()) - 1;
  axes_[static_cast<size_t>(axis)].outer_half = outer;
  axes_[static_cast<size_t>(axis)].inner_half = inner;
  return outer;
}

void AxisTable::expand(int axis, int64_t stride, std::vector<Strided>* out) const {
  axis = find(axis);
  const Axis& a = axes_[static_cast<size_t>(axis)];
  if (a.outer_half < 0) {
    out->push_back({axis, stride});
    return;
  }
  expand(a.outer_half, stride * axes_[static_cast<size_t>(a.inner_half)].size, out);
  expand(a.inner_half, stride, out);
}

void AxisTable::leaves(int axis, std::vector<int>* out) const {
  std::vector<Strided> expanded;
  expand(axis, 1, &expanded);
  for (const Strided& s : expanded) out->push_back(s.axis);
}

bool AxisTable::unify(std::vector<Strided> a, std::vector<Strided> b) {
  const auto prepare = [&](std::vector<Strided>* list) {
    std::vector<Strided> expanded;
    for (const Strided& s : *list) {
      if (s.stride != 0) expand(s.axis, s.stride, &expanded);
    }
    // The innermost comes last and is matched first.
    std::stable_sort(expanded.begin(), expanded.end(),
                     [](const Strided& x, const Strided& y) { return x.stride > y.stride; });
    *list = std::move(expanded);
  };
  prepare(&a);
  prepare(&b);
  while (!a.empty() && !b.empty()) {
    const Strided x = a.back(), y = b.back();
    if (x.stride != y.stride) return false;
    a.pop_back();
    b.pop_back();
    // Earlier steps of this walk may have split or unified what the lists name.
    const int p = find(x.axis), q = find(y.axis);
    if (axes_[static_cast<size_t>(p)].outer_half >= 0 ||
        axes_[static_cast<size_t>(q)].outer_half >= 0) {
      return false;  // an axis would be an inner part of itself
    }
    if (p == q) continue;
    const int64_t m = axes_[static_cast<size_t>(p)].size, n = axes_[static_cast<size_t>(q)].size;
    if (m == n) {
      axes_[static_cast<size_t>(q)].same = p;
    } else if (m > n && m % n == 0) {
      a.push_back({split(p, q), x.stride * n});
    } else if (n > m && n % m == 0) {
      b.push_back({split(q, p), y.stride * m});
    } else {
      return false;
    }
  }
  return a.empty() && b.empty();
}

bool AxisTable::equate(int a, int b) {
  const int p = find(a), q = find(b);
  if (size(p) != size(q)) return false;
  if (p != q) axes_[static_cast<size_t>(q)].same = p;
  return true;
}

int AxisTable::append(const AxisTable& other) {
  const int base = static_cast<int>(axes_.size());
  const auto moved = [&](int axis) { return axis < 0 ? axis : axis + base; };
  for (Axis a : other.axes_) {
    a.whole = moved(a.whole);
    a.inner = moved(a.inner);
    a.same = moved(a.same);
    a.outer_half = moved(a.outer_half);
    a.inner_half = moved(a.inner_half);
    axes_.push_back(a);
  }
  return base;
}

bool AxisTable::evaluate(const std::vector<FormNode>& nodes, std::vector<int64_t>* sizes) const {
  sizes->resize(axes_.size());
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& a = axes_[i];
    if (a.node >= 0) {
      const Canonical& c = nodes[static_cast<size_t>(a.node)].canonical;
      (*sizes)[i] = c.sizes[static_cast<size_t>(a.dim)];
      continue;
    }
    const int64_t whole = (*sizes)[static_cast<size_t>(a.whole)];
    const int64_t inner = (*sizes)[static_cast<size_t>(a.inner)];
    if (inner == 0 || whole % inner != 0) return false;
    (*sizes)[i] = whole / inner;
  }
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].same >= 0 && (*sizes)[i] != (*sizes)[static_cast<size_t>(axes_[i].same)]) {
      return false;
    }
  }
  return true;
}

}  // namespace neuron
