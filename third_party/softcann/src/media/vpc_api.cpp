// acldvppVpc*: pictures cut, resized, pasted, converted.
#include "media/color.h"
#include "media/vpc.h"
#include "media/work.h"
#include "rt/base/error.h"

using namespace softcann;
using namespace softcann::media;

namespace {

// Steps that are one task, and the pictures they make.
struct Work {
  std::vector<Step> steps;
  std::vector<std::shared_ptr<PictureState>> made;
};

aclError submit_steps(const char* entry, aclrtStream stream, Work work) {
  for (const Step& step : work.steps) {
    if (const aclError code = check_step(entry, step)) return code;
  }
  const auto shared = std::make_shared<const Work>(std::move(work));
  return submit_work(
      entry, stream,
      [shared] {
        for (const Step& step : shared->steps) run_step(step);
      },
      [shared](uint32_t code) {
        for (const auto& picture : shared->made) picture->result = code;
      });
}

// What the calls have in common: null means the call has no such argument.
struct Arguments {
  const acldvppChannelDesc* channel = nullptr;
  const acldvppRoiConfig* cut = nullptr;
  const acldvppRoiConfig* paste = nullptr;
  const acldvppResizeConfig* resize = nullptr;
  const acldvppBorderConfig* border = nullptr;
};

Step make_step(const Picture& from, const Picture& to, const Arguments& given) {
  Step step = whole_step(from, to, given.channel->channel.matrix);
  if (given.resize != nullptr) step.interpolation = static_cast<Interpolation>(given.resize->interpolation);
  if (given.cut != nullptr) step.cut = given.cut->region();
  if (given.paste != nullptr) {
    const Region area = given.paste->region();
    step.left = area.left;
    step.top = area.top;
    step.width = area.width;
    step.height = area.height;
  }
  if (given.border != nullptr) {
    step.border = given.border->border;
    // What the border leaves; a border that is too large is found by the check of sizes.
    step.width -= std::min(step.width, given.border->border.left + given.border->border.right);
    step.height -= std::min(step.height, given.border->border.top + given.border->border.bottom);
  }
  return step;
}

aclError check_paste(const char* entry, const acldvppRoiConfig& area) {
  if (area.left % 16 == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: the area that is written begins at %u; it must be a multiple of 16", entry,
              area.left);
}

aclError run_one(const char* entry, const acldvppPicDesc* input, acldvppPicDesc* output, const Arguments& given,
                 aclrtStream stream) {
  SOFTCANN_REQUIRE(input, "inputDesc");
  SOFTCANN_REQUIRE(output, "outputDesc");
  if (const aclError code = check_channel(entry, given.channel, DVPP_CHNMODE_VPC)) return code;
  if (given.paste != nullptr) {
    if (const aclError code = check_paste(entry, *given.paste)) return code;
  }
  return submit_steps(entry, stream, {{make_step(input->state->picture, output->state->picture, given)}, {output->state}});
}

// Of each of `size` pictures roiNums[i] areas, all listed one after the other, as the results are.
struct Batch {
  const acldvppChannelDesc* channel;
  const acldvppBatchPicDesc* from;
  const uint32_t* counts;
  uint32_t size;
  const acldvppBatchPicDesc* to;
  acldvppRoiConfig** cuts;
  acldvppRoiConfig** pastes;
  acldvppBorderConfig** borders;
  const acldvppResizeConfig* resize;
};

aclError check_batch(const char* entry, const Batch& batch) {
  SOFTCANN_REQUIRE(batch.from, "srcBatchPicDescs");
  SOFTCANN_REQUIRE(batch.counts, "roiNums");
  SOFTCANN_REQUIRE(batch.to, "dstBatchPicDescs");
  SOFTCANN_REQUIRE(batch.cuts, "cropAreas");
  if (batch.size == 0 || batch.size != batch.from->pictures.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: size is %u, there are %zu pictures", entry, batch.size,
                batch.from->pictures.size());
  }
  uint64_t areas = 0;
  for (uint32_t i = 0; i < batch.size; ++i) areas += batch.counts[i];
  if (areas != batch.to->pictures.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %llu areas, %zu pictures are to be made", entry,
                static_cast<unsigned long long>(areas), batch.to->pictures.size());
  }
  return check_channel(entry, batch.channel, DVPP_CHNMODE_VPC);
}

aclError run_batch(const char* entry, const Batch& batch, aclrtStream stream) {
  if (const aclError code = check_batch(entry, batch)) return code;
  Work work;
  size_t area = 0;
  for (uint32_t i = 0; i < batch.size; ++i) {
    for (uint32_t k = 0; k < batch.counts[i]; ++k, ++area) {
      const acldvppPicDesc& output = batch.to->pictures[area];
      Arguments given{batch.channel, batch.cuts[area], batch.pastes ? batch.pastes[area] : nullptr, batch.resize,
                      batch.borders ? batch.borders[area] : nullptr};
      SOFTCANN_REQUIRE(given.cut, "an area of cropAreas");
      if (batch.pastes != nullptr) {
        SOFTCANN_REQUIRE(given.paste, "an area of pasteAreas");
        if (const aclError code = check_paste(entry, *given.paste)) return code;
      }
      if (batch.borders != nullptr) SOFTCANN_REQUIRE(given.border, "an entry of borderCfgs");
      work.steps.push_back(make_step(batch.from->pictures[i].state->picture, output.state->picture, given));
      work.made.push_back(output.state);
    }
  }
  return submit_steps(entry, stream, std::move(work));
}

// Both pictures whole, of one format, `of` of the input's size.
aclError check_pair(const char* entry, const acldvppChannelDesc* channel, const acldvppPicDesc* input,
                    const acldvppPicDesc* output, uint32_t width, uint32_t height) {
  if (const aclError code = check_channel(entry, channel, DVPP_CHNMODE_VPC)) return code;
  const Picture &from = input->state->picture, &to = output->state->picture;
  if (const aclError code = check_picture(entry, "input", from)) return code;
  if (const aclError code = check_picture(entry, "output", to)) return code;
  if (from.format != to.format || to.width != width || to.height != height) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the output must be of the input's format, %u x %u", entry, width, height);
  }
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError acldvppVpcResizeAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                               acldvppResizeConfig* resizeConfig, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcResizeAsync);
  SOFTCANN_REQUIRE(resizeConfig, "resizeConfig");
  return run_one("acldvppVpcResizeAsync", inputDesc, outputDesc, {channelDesc, nullptr, nullptr, resizeConfig, nullptr}, stream);
}

aclError acldvppVpcCropAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                             acldvppRoiConfig* cropArea, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcCropAsync);
  SOFTCANN_REQUIRE(cropArea, "cropArea");
  return run_one("acldvppVpcCropAsync", inputDesc, outputDesc, {channelDesc, cropArea, nullptr, nullptr, nullptr}, stream);
}

aclError acldvppVpcCropResizeAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                                   acldvppRoiConfig* cropArea, acldvppResizeConfig* resizeConfig, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcCropResizeAsync);
  SOFTCANN_REQUIRE(cropArea, "cropArea");
  SOFTCANN_REQUIRE(resizeConfig, "resizeConfig");
  return run_one("acldvppVpcCropResizeAsync", inputDesc, outputDesc, {channelDesc, cropArea, nullptr, resizeConfig, nullptr},
                 stream);
}

aclError acldvppVpcCropAndPasteAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                                     acldvppRoiConfig* cropArea, acldvppRoiConfig* pasteArea, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcCropAndPasteAsync);
  SOFTCANN_REQUIRE(cropArea, "cropArea");
  SOFTCANN_REQUIRE(pasteArea, "pasteArea");
  return run_one("acldvppVpcCropAndPasteAsync", inputDesc, outputDesc, {channelDesc, cropArea, pasteArea, nullptr, nullptr},
                 stream);
}

aclError acldvppVpcCropResizePasteAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                                        acldvppRoiConfig* cropArea, acldvppRoiConfig* pasteArea,
                                        acldvppResizeConfig* resizeConfig, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcCropResizePasteAsync);
  SOFTCANN_REQUIRE(cropArea, "cropArea");
  SOFTCANN_REQUIRE(pasteArea, "pasteArea");
  SOFTCANN_REQUIRE(resizeConfig, "resizeConfig");
  return run_one("acldvppVpcCropResizePasteAsync", inputDesc, outputDesc,
                 {channelDesc, cropArea, pasteArea, resizeConfig, nullptr}, stream);
}

aclError acldvppVpcBatchCropAsync(acldvppChannelDesc* channelDesc, acldvppBatchPicDesc* srcBatchPicDescs, uint32_t* roiNums,
                                  uint32_t size, acldvppBatchPicDesc* dstBatchPicDescs, acldvppRoiConfig* cropAreas[],
                                  aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcBatchCropAsync);
  return run_batch("acldvppVpcBatchCropAsync",
                   {channelDesc, srcBatchPicDescs, roiNums, size, dstBatchPicDescs, cropAreas, nullptr, nullptr, nullptr},
                   stream);
}

aclError acldvppVpcBatchCropResizeAsync(acldvppChannelDesc* channelDesc, acldvppBatchPicDesc* srcBatchPicDescs, uint32_t* roiNums,
                                        uint32_t size, acldvppBatchPicDesc* dstBatchPicDescs, acldvppRoiConfig* cropAreas[],
                                        acldvppResizeConfig* resizeConfig, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcBatchCropResizeAsync);
  SOFTCANN_REQUIRE(resizeConfig, "resizeConfig");
  return run_batch("acldvppVpcBatchCropResizeAsync",
                   {channelDesc, srcBatchPicDescs, roiNums, size, dstBatchPicDescs, cropAreas, nullptr, nullptr, resizeConfig},
                   stream);
}

aclError acldvppVpcBatchCropAndPasteAsync(acldvppChannelDesc* channelDesc, acldvppBatchPicDesc* srcBatchPicDescs,
                                          uint32_t* roiNums, uint32_t size, acldvppBatchPicDesc* dstBatchPicDescs,
                                          acldvppRoiConfig* cropAreas[], acldvppRoiConfig* pasteAreas[], aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcBatchCropAndPasteAsync);
  SOFTCANN_REQUIRE(pasteAreas, "pasteAreas");
  return run_batch("acldvppVpcBatchCropAndPasteAsync",
                   {channelDesc, srcBatchPicDescs, roiNums, size, dstBatchPicDescs, cropAreas, pasteAreas, nullptr, nullptr},
                   stream);
}

aclError acldvppVpcBatchCropResizePasteAsync(acldvppChannelDesc* channelDesc, acldvppBatchPicDesc* srcBatchPicDescs,
                                             uint32_t* roiNums, uint32_t size, acldvppBatchPicDesc* dstBatchPicDescs,
                                             acldvppRoiConfig* cropAreas[], acldvppRoiConfig* pasteAreas[],
                                             acldvppResizeConfig* resizeConfig, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcBatchCropResizePasteAsync);
  SOFTCANN_REQUIRE(pasteAreas, "pasteAreas");
  SOFTCANN_REQUIRE(resizeConfig, "resizeConfig");
  return run_batch("acldvppVpcBatchCropResizePasteAsync",
                   {channelDesc, srcBatchPicDescs, roiNums, size, dstBatchPicDescs, cropAreas, pasteAreas, nullptr, resizeConfig},
                   stream);
}

aclError acldvppVpcBatchCropResizeMakeBorderAsync(acldvppChannelDesc* channelDesc, acldvppBatchPicDesc* srcBatchPicDescs,
                                                  uint32_t* roiNums, uint32_t size, acldvppBatchPicDesc* dstBatchPicDescs,
                                                  acldvppRoiConfig* cropAreas[], acldvppBorderConfig* borderCfgs[],
                                                  acldvppResizeConfig* resizeConfig, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcBatchCropResizeMakeBorderAsync);
  SOFTCANN_REQUIRE(borderCfgs, "borderCfgs");
  SOFTCANN_REQUIRE(resizeConfig, "resizeConfig");
  return run_batch("acldvppVpcBatchCropResizeMakeBorderAsync",
                   {channelDesc, srcBatchPicDescs, roiNums, size, dstBatchPicDescs, cropAreas, nullptr, borderCfgs, resizeConfig},
                   stream);
}

aclError acldvppVpcConvertColorAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                                     aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcConvertColorAsync);
  SOFTCANN_REQUIRE(inputDesc, "inputDesc");
  SOFTCANN_REQUIRE(outputDesc, "outputDesc");
  const Picture &from = inputDesc->state->picture, &to = outputDesc->state->picture;
  if (from.width != to.width || from.height != to.height) {
    return fail(ACL_ERROR_INVALID_PARAM, "acldvppVpcConvertColorAsync: the input is %u x %u, the output %u x %u", from.width,
                from.height, to.width, to.height);
  }
  return run_one("acldvppVpcConvertColorAsync", inputDesc, outputDesc, {channelDesc, nullptr, nullptr, nullptr, nullptr}, stream);
}

aclError acldvppVpcMakeBorderAsync(const acldvppChannelDesc* channelDesc, const acldvppPicDesc* inputDesc,
                                   acldvppPicDesc* outputDesc, const acldvppBorderConfig* borderConfig, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcMakeBorderAsync);
  SOFTCANN_REQUIRE(inputDesc, "inputDesc");
  SOFTCANN_REQUIRE(outputDesc, "outputDesc");
  SOFTCANN_REQUIRE(borderConfig, "borderConfig");
  constexpr const char* entry = "acldvppVpcMakeBorderAsync";
  const Picture &from = inputDesc->state->picture, &to = outputDesc->state->picture;
  const Border& border = borderConfig->border;
  if (uint64_t{from.width} + border.left + border.right != to.width ||
      uint64_t{from.height} + border.top + border.bottom != to.height) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "%s: %u x %u with borders of %u, %u, %u and %u (left, right, top, bottom) is not the output's %u x %u", entry,
                from.width, from.height, border.left, border.right, border.top, border.bottom, to.width, to.height);
  }
  return run_one(entry, inputDesc, outputDesc, {channelDesc, nullptr, nullptr, nullptr, borderConfig}, stream);
}

aclError acldvppVpcPyrDownAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc, void*,
                                aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcPyrDownAsync);
  SOFTCANN_REQUIRE(inputDesc, "inputDesc");
  SOFTCANN_REQUIRE(outputDesc, "outputDesc");
  constexpr const char* entry = "acldvppVpcPyrDownAsync";
  const Picture from = inputDesc->state->picture;
  if (const aclError code = check_pair(entry, channelDesc, inputDesc, outputDesc, (from.width + 1) / 2, (from.height + 1) / 2))
    return code;
  return submit_work(
      entry, stream,
      [from, to = outputDesc->state->picture] {
        constexpr std::array<int8_t, 5> line = {1, 4, 6, 4, 1};
        std::array<std::array<int8_t, 5>, 5> weights{};
        for (size_t y = 0; y < 5; ++y) {
          for (size_t x = 0; x < 5; ++x) weights[y][x] = static_cast<int8_t>(line[y] * line[x]);
        }
        write_image(pyramid_down(read_image(from), weights, 256, BORDER_REFLECT_101), to);
      },
      [state = outputDesc->state](uint32_t code) { state->result = code; });
}

aclError acldvppVpcEqualizeHistAsync(const acldvppChannelDesc* channelDesc, const acldvppPicDesc* inputDesc,
                                     acldvppPicDesc* outputDesc, const acldvppLutMap* lutMap, aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcEqualizeHistAsync);
  SOFTCANN_REQUIRE(inputDesc, "inputDesc");
  SOFTCANN_REQUIRE(outputDesc, "outputDesc");
  SOFTCANN_REQUIRE(lutMap, "lutMap");
  constexpr const char* entry = "acldvppVpcEqualizeHistAsync";
  const Picture from = inputDesc->state->picture;
  if (const aclError code = check_pair(entry, channelDesc, inputDesc, outputDesc, from.width, from.height)) return code;
  return submit_work(
      entry, stream,
      [from, to = outputDesc->state->picture, tables = lutMap->tables] {
        Image image = read_image(from);
        for (size_t i = 0; i < image.planes.size() && i < tables.size(); ++i) look_up(image.planes[i], tables[i].data());
        write_image(image, to);
      },
      [state = outputDesc->state](uint32_t code) { state->result = code; });
}

aclError acldvppVpcCalcHistAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* srcPicDesc, acldvppHist* hist, void*,
                                 aclrtStream stream) {
  SOFTCANN_ENTRY(acldvppVpcCalcHistAsync);
  SOFTCANN_REQUIRE(srcPicDesc, "srcPicDesc");
  SOFTCANN_REQUIRE(hist, "hist");
  constexpr const char* entry = "acldvppVpcCalcHistAsync";
  if (const aclError code = check_channel(entry, channelDesc, DVPP_CHNMODE_VPC)) return code;
  if (const aclError code = check_picture(entry, "input", srcPicDesc->state->picture)) return code;
  return submit_work(
      entry, stream,
      [from = srcPicDesc->state->picture, state = hist->state] {
        const Image image = read_image(from);
        const size_t dims = std::min<size_t>(image.planes.size(), state->counts.size());
        for (size_t i = 0; i < dims; ++i) state->counts[i] = histogram(image.planes[i]);
        state->dims = static_cast<uint32_t>(dims);
      },
      [state = hist->state](uint32_t code) { state->result = code; });
}
}
