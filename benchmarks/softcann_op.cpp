// Host cost of softcann's operator calls, in nanoseconds: what a client pays for descriptors, the two phases, and the
// work itself when it runs inline. Compiled and run by softcann_op.py; `--json FILE` writes the lines too.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_ops.h"

namespace {

void check(int code, const char* what) {
  if (code == 0) return;
  std::fprintf(stderr, "%s failed with %d: %s\n", what, code, aclGetRecentErrMsg());
  std::exit(1);
}
#define CHECK(call) check(call, #call)

struct Row {
  std::string name;
  double ns;
};

// Median over rounds of the mean cost of a call.
double measure(const std::function<void()>& call) {
  constexpr int rounds = 9, calls = 20000;
  std::vector<double> costs;
  for (int i = 0; i < calls; ++i) call();
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    costs.push_back(spent.count() / calls);
  }
  std::nth_element(costs.begin(), costs.begin() + rounds / 2, costs.end());
  return costs[rounds / 2];
}

aclTensor* tensor(void* data, int64_t n) {
  const int64_t stride = 1;
  return aclCreateTensor(&n, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &n, 1, data);
}

void add_with_new_descriptors(void* a, void* b, void* c, int64_t n, aclrtStream stream) {
  aclTensor *self = tensor(a, n), *other = tensor(b, n), *out = tensor(c, n);
  float one = 1;
  aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
  uint64_t workspace = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnAddGetWorkspaceSize(self, other, alpha, out, &workspace, &executor));
  CHECK(aclnnAdd(nullptr, 0, executor, stream));
  aclDestroyTensor(self);
  aclDestroyTensor(other);
  aclDestroyTensor(out);
  aclDestroyScalar(alpha);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  void *a = nullptr, *b = nullptr, *c = nullptr;
  constexpr size_t bytes = 1 << 20;
  for (void** p : {&a, &b, &c}) CHECK(aclrtMalloc(p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemset(a, bytes, 0, bytes));
  CHECK(aclrtMemset(b, bytes, 0, bytes));

  std::vector<Row> rows;
  rows.push_back({"aclCreateTensor + aclDestroyTensor", measure([&] { aclDestroyTensor(tensor(a, 1)); })});
  rows.push_back({"aclCreateScalar + aclDestroyScalar", measure([] {
                    float one = 1;
                    aclDestroyScalar(aclCreateScalar(&one, ACL_FLOAT));
                  })});
  for (const int64_t n : {1, 64, 1024, 16384}) {
    rows.push_back({"add, new descriptors, float32[" + std::to_string(n) + "]",
                    measure([&] { add_with_new_descriptors(a, b, c, n, stream); })});
  }
  {
    aclTensor *self = tensor(a, 1), *other = tensor(b, 1), *out = tensor(c, 1);
    float one = 1;
    aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
    uint64_t workspace = 0;
    aclOpExecutor* executor = nullptr;
    rows.push_back({"add, reused descriptors, float32[1]", measure([&] {
                      CHECK(aclnnAddGetWorkspaceSize(self, other, alpha, out, &workspace, &executor));
                      CHECK(aclnnAdd(nullptr, 0, executor, stream));
                    })});
    CHECK(aclnnAddGetWorkspaceSize(self, other, alpha, out, &workspace, &executor));
    CHECK(aclSetAclOpExecutorRepeatable(executor));
    rows.push_back({"add, repeatable executor, float32[1]", measure([&] { CHECK(aclnnAdd(nullptr, 0, executor, stream)); })});
    aclDestroyAclOpExecutor(executor);
    rows.push_back({"maximum (through ATen), reused descriptors, float32[1]", measure([&] {
                      CHECK(aclnnMaximumGetWorkspaceSize(self, other, out, &workspace, &executor));
                      CHECK(aclnnMaximum(nullptr, 0, executor, stream));
                    })});
    for (const aclTensor* made : {self, other, out}) aclDestroyTensor(made);
    aclDestroyScalar(alpha);
  }
  CHECK(aclrtSynchronizeStream(stream));

  FILE* json = argc == 3 && !std::strcmp(argv[1], "--json") ? std::fopen(argv[2], "w") : nullptr;
  if (json) std::fputs("{", json);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::printf("%-60s %9.1f ns\n", rows[i].name.c_str(), rows[i].ns);
    if (json) std::fprintf(json, "%s\"%s\": %.1f", i ? ", " : "", rows[i].name.c_str(), rows[i].ns);
  }
  if (json) {
    std::fputs("}\n", json);
    std::fclose(json);
  }
  return 0;
}
