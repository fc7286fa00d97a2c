// Operators that clients name: non-maximum suppression.
#include "op/kernel.h"
#include "op/kernels/box_geometry.h"
#include "op/kernels/common.h"
#include "op/kernels/named/suppression.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

at::Tensor ratio_of_all(const at::Tensor& boxes) {
  return overlap_of(Boxes(boxes.unsqueeze(0)), Boxes(boxes.unsqueeze(1)), "iou", 0).to(at::kFloat);
}

Integers survivors(const at::Tensor& boxes, const Integers& order, double threshold, int64_t most) {
  const std::vector<bool> stays = suppressed(ratio_of_all(boxes.index_select(0, at::tensor(order, at::kLong))), threshold);
  Integers kept;
  for (size_t i = 0; i < order.size() && static_cast<int64_t>(kept.size()) < most; ++i) {
    if (stays[i]) kept.push_back(order[i]);
  }
  return kept;
}

// Numbers of boxes into an output that may have more places; those are 0.
void put_numbers(const at::Tensor& out, const Integers& numbers) {
  at::Tensor all = at::zeros({out.numel()}, at::kLong);
  const auto count = std::min<int64_t>(out.numel(), static_cast<int64_t>(numbers.size()));
  all.narrow(0, 0, count).copy_(at::tensor(numbers, at::kLong).narrow(0, 0, count));
  put(out, all);
}

}  // namespace

// Boxes and scores [n, 5 or more], best first: the boxes, their numbers, and whether they stay.
NAMED(NMSWithMask) {
  const at::Tensor& given = call.in(0);
  const std::vector<bool> stays = suppressed(ratio_of_all(widened(given).narrow(1, 0, 4)), call.attribute("iou_threshold", 0.5F));
  at::Tensor mask = at::zeros({given.size(0)}, at::kByte);
  for (size_t i = 0; i < stays.size(); ++i) mask[static_cast<int64_t>(i)].fill_(stays[i] ? 1 : 0);
  put(call.out(0), given.narrow(1, 0, call.out(0).size(1)));
  put(call.out(1), at::arange(given.size(0)));
  put(call.out(2), mask);
}
// Boxes [n, 4], scores [n], and a number each: how many at most, the overlap's and the score's threshold. `offset` is how much
// longer than the difference of its corners a side is. The result has as many numbers as boxes stay.
NAMED(NonMaxSuppressionV3) {
  at::Tensor boxes = widened(call.in(0)).clone();
  boxes.narrow(1, 2, 2).add_(call.attribute<int64_t>("offset", 0));
  const Integers chosen =
      survivors(boxes, by_score(call.in(1), call.in(4).item<double>()), call.in(3).item<double>(), call.in(2).item<int64_t>());
  call.give(0, at::tensor(chosen, at::kLong));
}
// Boxes [n, 4], scores [n], and a number each: how many at most, the overlap's and the score's threshold.
NAMED(NonMaxSuppressionV4) {
  const Integers chosen = survivors(widened(call.in(0)), by_score(call.in(1), call.in(4).item<double>()),
                                    call.in(3).item<double>(), call.in(2).item<int64_t>());
  put_numbers(call.out(0), chosen);
  put(call.out(1), at::scalar_tensor(static_cast<int64_t>(chosen.size()), at::kLong));
}

// Boxes [images, n, 1 or classes, 4], scores [images, n, classes]: of each class those that stay, of all the best.
NAMED(BatchMultiClassNonMaxSuppression) {
  TORCH_CHECK(!call.attribute("change_coordinate_frame", false) && !call.attribute("transpose_box", false),
              "change_coordinate_frame and transpose_box are not supported");
  const at::Tensor boxes = widened(call.in(0)), scores = widened(call.in(1));
  TORCH_CHECK(boxes.dim() == 4 && scores.dim() == 3 && (boxes.size(2) == 1 || boxes.size(2) == scores.size(2)),
              "boxes are [images, n, 1 or classes, 4] and scores [images, n, classes]");
  const auto most = call.attribute<int64_t>("max_total_size", 0), each = call.attribute<int64_t>("max_size_per_class", 0);
  const at::Tensor kept = at::zeros({scores.size(0), most, 6}), counts = at::zeros({scores.size(0)}, at::kInt);
  for (int64_t image = 0; image < scores.size(0); ++image) {
    std::vector<at::Tensor> rows;
    for (int64_t kind = 0; kind < scores.size(2); ++kind) {
      const at::Tensor own = boxes[image].select(1, boxes.size(2) == 1 ? 0 : kind), value = scores[image].select(1, kind);
      for (const int64_t i : survivors(own, by_score(value, call.attribute("score_threshold", 0.0F)),
                                       call.attribute("iou_threshold", 0.0F), each)) {
        rows.push_back(at::cat({own[i], value[i].reshape({1}), at::full({1}, kind, at::kFloat)}));
      }
    }
    if (rows.empty()) continue;
    const at::Tensor found = at::stack(rows);
    const at::Tensor order =
        std::get<1>(found.select(1, 4).sort(true, 0, true)).narrow(0, 0, std::min<int64_t>(most, found.size(0)));
    kept[image].narrow(0, 0, order.size(0)).copy_(found.index_select(0, order));
    counts[image].fill_(order.size(0));
  }
  put(call.out(0), kept.narrow(2, 0, 4));
  put(call.out(1), kept.select(2, 4));
  put(call.out(2), kept.select(2, 5));
  put(call.out(3), counts);
}

namespace {

double batches_cost(const at::Tensor& boxes, const at::Tensor& scores, at::IntArrayRef most, c10::ArrayRef<float> overlap,
                    c10::ArrayRef<float> least, int centred) {
  if (given(boxes) && given(scores) &&
      (boxes.dim() != 3 || scores.dim() != 3 || boxes.size(0) != scores.size(0) || boxes.size(1) != scores.size(2) ||
       boxes.size(2) != 4))
    invalid("aclnnNonMaxSuppression: boxes are [batches, n, 4] and scores [batches, classes, n]");
  if (most.size() != 1 || most[0] < 0 || most[0] > 700)
    invalid("aclnnNonMaxSuppression: maxOutputBoxesPerClass is one number from 0 to 700");
  const auto share = [](c10::ArrayRef<float> one) { return one.size() == 1 && one[0] >= 0 && one[0] <= 1; };
  if (!share(overlap) || !share(least)) invalid("aclnnNonMaxSuppression: a threshold is one number from 0 to 1");
  if (centred != 0 && centred != 1) invalid("aclnnNonMaxSuppression: centerPointBox is %d; 0 and 1 are supported", centred);
  return bytes(boxes) + bytes(scores);
}

}  // namespace

// Rows (image, class, box) of those that stay, -1 behind them.
OP_COST(aclnnNonMaxSuppression,
        batches_cost(boxes, scores, maxOutputBoxesPerClass, iouThreshold, scoreThreshold, centerPointBox)) {
  at::Tensor sides = widened(boxes);
  if (centerPointBox == 1) {
    const at::Tensor centre = sides.narrow(2, 0, 2), half = sides.narrow(2, 2, 2) / 2;
    sides = at::cat({centre - half, centre + half}, 2);
  }
  at::Tensor rows = at::full({selectedIndices.size(0), 3}, -1, at::kInt);
  auto* row = rows.mutable_data_ptr<int32_t>();
  auto left = selectedIndices.size(0);
  for (int64_t image = 0; image < scores.size(0); ++image) {
    for (int64_t kind = 0; kind < scores.size(1); ++kind) {
      const Integers order = by_score(scores[image][kind], static_cast<double>(scoreThreshold[0]));
      for (const int64_t i : survivors(sides[image], order, static_cast<double>(iouThreshold[0]), maxOutputBoxesPerClass[0])) {
        if (left-- <= 0) return put(selectedIndices, rows);
        for (const int64_t number : {image, kind, i}) *row++ = static_cast<int32_t>(number);
      }
    }
  }
  put(selectedIndices, rows);
}
