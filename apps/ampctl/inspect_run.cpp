#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "config/load.h"
#include "inspection.h"

namespace ampctl::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLossMetric = "eval/loss";

struct Metrics {
  Json last_step;
  Json last_evaluation;
  Json best;
};

bool better(const std::string& metric, double candidate, double best) {
  return metric == kLossMetric ? candidate < best : candidate > best;
}

// Lines that are not JSON are passed over: the last one may just be being written.
Metrics read_metrics(const fs::path& path, const std::string& metric) {
  Metrics metrics;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) {
    Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    if (!line.contains(kLossMetric)) {
      metrics.last_step = std::move(line);
      continue;
    }
    const auto value = line.find(metric);
    if (value != line.end() && value->is_number() &&
        (metrics.best.is_null() ||
         better(metric, value->get<double>(), metrics.best.at("value").get<double>()))) {
      metrics.best = {{"metric", metric}, {"value", *value}, {"step", line.value("step", Json(nullptr))}};
    }
    metrics.last_evaluation = std::move(line);
  }
  return metrics;
}

Json config_summary(const fs::path& file, std::string& metric) {
  Json summary{{"file", file.string()}, {"problem", nullptr}};
  try {
    const config::ExperimentConfig config = config::load({{file.string()}, {}});
    metric = config.eval.best_metric;
    summary["model"] = config.model.name;
    summary["device"] = config.device;
    summary["dtype"] = config.amp.enabled ? config.amp.dtype : "float32";
    summary["optimizer"] = config.optimizer.name;
    summary["lr"] = config.optimizer.lr;
    summary["lr_schedule"] = config.lr_schedule.name;
    summary["epochs"] = config.train.epochs ? Json(*config.train.epochs) : Json(nullptr);
    summary["steps"] = config.train.steps ? Json(*config.train.steps) : Json(nullptr);
    summary["seed"] = config.seed;
  } catch (const Error& error) {
    summary["problem"] = error.what();
  }
  return summary;
}

std::string link_target(const fs::path& link) {
  std::error_code failure;
  const fs::path target = fs::read_symlink(link, failure);
  return failure ? "" : target.filename().string();
}

Json checkpoint_summary(const fs::path& folder) {
  Json summary{{"path", folder.string()},
               {"saved_at", nullptr},
               {"bytes", nullptr},
               {"whole", true},
               {"problem", nullptr}};
  try {
    const checkpoint::Manifest manifest = checkpoint::read_manifest(folder);
    uint64_t bytes = 0;
    for (const auto& file : manifest.files) bytes += file.digest.bytes;
    summary["bytes"] = bytes;
    summary["saved_at"] = unix_time(folder / checkpoint::kManifestFile);
    checkpoint::verify(folder);
  } catch (const Error& error) {
    summary["whole"] = false;
    summary["problem"] = error.what();
  }
  return summary;
}

Json checkpoint_list(const fs::path& checkpoints) {
  std::map<int64_t, fs::path> folders;
  std::error_code failure;
  for (fs::directory_iterator it(checkpoints, failure), end; !failure && it != end; it.increment(failure)) {
    const auto step = checkpoint::step_of(it->path().filename().string());
    if (step) folders[*step] = it->path();
  }
  const std::string latest = link_target(checkpoints / checkpoint::kLatestLink);
  const std::string best = link_target(checkpoints / checkpoint::kBestLink);
  Json list = Json::array();
  for (const auto& [step, folder] : folders) {
    Json entry{{"step", step}};
    entry.update(checkpoint_summary(folder));
    entry["latest"] = folder.filename() == latest;
    entry["best"] = folder.filename() == best;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string value_text(const Json& line, const char* key, int digits) {
  const auto value = line.find(key);
  if (value == line.end()) return "?";
  return value->is_number() ? format_significant(value->get<double>(), digits) : "nan";
}

std::string scale_text(const Json& step) {
  const auto scale = step.find("amp/scale");
  return scale != step.end() && scale->is_number() ? format_scale(scale->get<double>()) : "?";
}

void add_config(const Json& config, Table& table) {
  if (!config.at("problem").is_null()) {
    table.add({"configuration", "unreadable: " + config.at("problem").get<std::string>()});
    return;
  }
  table.add({"configuration", config.at("file").get<std::string>()});
  const auto text = [&](const char* key) { return config.at(key).get<std::string>(); };
  const std::string length = config.at("epochs").is_null()
                                 ? (config.at("steps").is_null() ? "" : config.at("steps").dump() + " steps")
                                 : config.at("epochs").dump() + " epochs";
  table.add({"model", text("model") + ", " + text("dtype") + " on " + text("device")});
  table.add({"training", text("optimizer") + ", lr " + config.at("lr").dump() + " " + text("lr_schedule") +
                             ", " + length + ", seed " + config.at("seed").dump()});
}

void add_metrics(const Json& run, Table& table) {
  constexpr int kDigits = 4;
  const Json& step = run.at("last_step");
  if (step.is_object()) {
    const std::string when =
        step.contains("wall_time") ? ", " + age_text(step.at("wall_time").get<double>()) : "";
    table.add({"last step", "step " + step.value("step", Json("?")).dump() + ": loss " +
                                value_text(step, "train/loss", kDigits) + ", lr " +
                                value_text(step, "lr", kDigits) + ", scale " + scale_text(step) + ", " +
                                step.value("amp/skipped_steps", Json(0)).dump() + " skipped" + when});
  }
  const Json& evaluation = run.at("last_evaluation");
  if (evaluation.is_object()) {
    table.add({"last evaluation", "step " + evaluation.value("step", Json("?")).dump() + ": loss " +
                                      value_text(evaluation, kLossMetric, kDigits) + ", top1 " +
                                      value_text(evaluation, "eval/top1", kDigits) + "%, top5 " +
                                      value_text(evaluation, "eval/top5", kDigits) + "%"});
  }
  const Json& best = run.at("best");
  if (best.is_object()) {
    table.add({"best", best.at("metric").get<std::string>() + " " + value_text(best, "value", kDigits) +
                           " at step " + best.at("step").dump()});
  }
}

std::string checkpoints_text(const Json& list) {
  if (list.empty()) return "no checkpoints\n";
  Table table({Align::right, Align::right}, 2);
  table.add({"step", "size", "saved", "state", ""});
  for (const auto& entry : list) {
    std::string links = entry.at("latest").get<bool>() ? "latest" : "";
    if (entry.at("best").get<bool>()) links += links.empty() ? "best" : ", best";
    const bool whole = entry.at("whole").get<bool>();
    table.add({group_digits(entry.at("step").get<int64_t>()),
               entry.at("bytes").is_null() ? "?" : format_bytes(entry.at("bytes").get<uint64_t>()),
               entry.at("saved_at").is_null() ? "?" : age_text(entry.at("saved_at").get<double>()),
               whole ? "whole" : "DAMAGED: " + entry.at("problem").get<std::string>(), links});
  }
  return "checkpoints\n" + table.str();
}

}  // namespace

Json inspect_run(const fs::path& folder) {
  Json out{{"kind", "run"}, {"path", folder.string()}};
  std::string metric = "eval/top1";
  out["config"] = config_summary(folder / "config.yaml", metric);
  Metrics metrics = read_metrics(folder / "metrics.jsonl", metric);
  out["last_step"] = std::move(metrics.last_step);
  out["last_evaluation"] = std::move(metrics.last_evaluation);
  out["best"] = std::move(metrics.best);
  out["checkpoints"] = checkpoint_list(folder / "checkpoints");
  return out;
}

std::string run_text(const Json& run) {
  Table table;
  table.add({"run", run.at("path").get<std::string>()});
  add_config(run.at("config"), table);
  add_metrics(run, table);
  return table.str() + "\n" + checkpoints_text(run.at("checkpoints"));
}

}  // namespace ampctl::cli
