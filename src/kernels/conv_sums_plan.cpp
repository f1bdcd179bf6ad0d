#include "kernels/conv_sums_plan.h"

#include <optional>
#include <utility>

#include "kernels/cudnn_descriptor.h"

namespace ampctl::kernels {
namespace {

constexpr int64_t kAlignment = 16;
constexpr std::array<int64_t, 5> kIds{1, 2, 3, 4, 5};  // input, weight, output, sums, squares

CudnnDescriptor tensor(int64_t id, cudnnDataType_t dtype, const std::array<int64_t, 4>& sizes) {
  const auto [n, c, h, w] = sizes;
  CudnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, dtype)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::array<int64_t, 4>{c * h * w, 1, c * w, c});
  TORCH_CHECK(made.finalize(), "cuDNN refuses the description of a tensor");
  return made;
}

CudnnDescriptor convolution(const ConvSumsProblem& problem) {
  CudnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, problem.padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, problem.padding)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, std::array<int64_t, 2>{1, 1})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, problem.stride);
  TORCH_CHECK(made.finalize(), "cuDNN refuses the description of a convolution");
  return made;
}

/// The engine configurations that one kind of heuristics proposes, best first.
std::vector<CudnnDescriptor> proposals(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode,
                                       size_t most) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!heuristics.finalize()) return {};
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (size_t i = 0; i < most; ++i) {
    raw.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  int64_t found = 0;
  check_cudnn(
      cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               static_cast<int64_t>(most), &found, raw.data()),
      "cudnnBackendGetAttribute");
  if (found < static_cast<int64_t>(most)) {
    configs.erase(configs.begin() + static_cast<std::ptrdiff_t>(found), configs.end());
  }
  return configs;
}

int64_t workspace_of(const CudnnDescriptor& plan) {
  int64_t bytes = 0;
  int64_t found = 0;
  check_cudnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                       1, &found, &bytes),
              "cudnnBackendGetAttribute");
  return bytes;
}

/// y = conv(x, w) with sum(y) and sum(y^2) a channel, as a graph of two operations.
struct Operations {
  std::vector<CudnnDescriptor> tensors;
  CudnnDescriptor conv;
  CudnnDescriptor forward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR};
  CudnnDescriptor statistics{CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR};
  CudnnDescriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};

  explicit Operations(const ConvSumsProblem& problem) : conv(convolution(problem)) {
    const std::array<int64_t, 4> channels{1, problem.output[1], 1, 1};
    tensors.push_back(tensor(kIds[0], problem.dtype, problem.input));
    tensors.push_back(tensor(kIds[1], problem.dtype, problem.weight));
    tensors.push_back(tensor(kIds[2], problem.dtype, problem.output));
    tensors.push_back(tensor(kIds[3], CUDNN_DATA_FLOAT, channels));
    tensors.push_back(tensor(kIds[4], CUDNN_DATA_FLOAT, channels));
  }

  [[nodiscard]] bool finalize(cudnnHandle_t handle) {
    forward.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0F)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0F)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensors[0])
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensors[1])
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensors[2]);
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
        .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, tensors[2])
        .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, tensors[3])
        .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, tensors[4]);
    if (!forward.finalize() || !statistics.finalize()) return false;
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle)
        .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             std::array<cudnnBackendDescriptor_t, 2>{forward.get(), statistics.get()});
    return graph.finalize();
  }
};

}  // namespace

// A plan refers to what it was made from.
struct ConvSumsPlan::Parts {
  std::shared_ptr<const Operations> operations;
  CudnnDescriptor config;
  CudnnDescriptor plan;
};

ConvSumsPlan::ConvSumsPlan(std::shared_ptr<const Parts> parts, int64_t workspace_bytes)
    : parts_(std::move(parts)), workspace_bytes_(workspace_bytes) {}

std::vector<ConvSumsPlan> ConvSumsPlan::find(cudnnHandle_t handle, const ConvSumsProblem& problem,
                                             size_t most, int64_t most_workspace) {
  const auto operations = std::make_shared<Operations>(problem);
  if (!operations->finalize(handle)) return {};
  std::vector<ConvSumsPlan> plans;
  for (auto& config : proposals(operations->graph, CUDNN_HEUR_MODE_A, most)) {
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (!plan.finalize()) continue;
    const int64_t workspace = workspace_of(plan);
    if (workspace > most_workspace) continue;
    plans.push_back(ConvSumsPlan(
        std::make_shared<const Parts>(Parts{operations, std::move(config), std::move(plan)}), workspace));
  }
  return plans;
}

void ConvSumsPlan::run(cudnnHandle_t handle, const ConvSumsPointers& pointers) const {
  // cuDNN's interface knows no constant data.
  const std::array<void*, 5> data{const_cast<void*>(pointers.input), const_cast<void*>(pointers.weight),
                                  pointers.output, pointers.sums, pointers.squares};
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kIds)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, pointers.workspace);
  TORCH_CHECK(pack.finalize(), "cuDNN refuses the tensors of a convolution");
  check_cudnn(cudnnBackendExecute(handle, parts_->plan.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace ampctl::kernels
