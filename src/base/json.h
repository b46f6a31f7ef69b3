// JSON forms of values, without the JSON library in their headers: a header says TRIREME_JSON(Type) in the type's
// namespace, and one source beside it (<header>_json.cpp) defines the form by one of the other macros. The library alone
// takes two seconds of a compilation, and every form that a header defines is compiled again by all who include it.
#pragma once
#include <nlohmann/json_fwd.hpp>

#define TRIREME_JSON(Type)                      \
  void to_json(nlohmann::json& j, const Type&); \
  void from_json(const nlohmann::json& j, Type&);

// An object with these fields; reading one without a field throws nlohmann::json::out_of_range.
#define TRIREME_DEFINE_JSON(Type, ...)                                                      \
  void to_json(nlohmann::json& nlohmann_json_j, const Type& nlohmann_json_t) {              \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))                \
  }                                                                                         \
  void from_json(const nlohmann::json& nlohmann_json_j, Type& nlohmann_json_t) {            \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__))              \
  }

// The same; what is absent keeps the value of a fresh Type.
#define TRIREME_DEFINE_JSON_WITH_DEFAULT(Type, ...)                                            \
  void to_json(nlohmann::json& nlohmann_json_j, const Type& nlohmann_json_t) {                 \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))                   \
  }                                                                                            \
  void from_json(const nlohmann::json& nlohmann_json_j, Type& nlohmann_json_t) {               \
    const Type nlohmann_json_default_obj{};                                                    \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM_WITH_DEFAULT, __VA_ARGS__))    \
  }

// An enumeration by name: {{Kind::first, "first"}, ...}. An unknown name reads as the first.
#define TRIREME_DEFINE_ENUM_JSON(Type, ...)                                       \
  namespace {                                                                     \
  const std::pair<Type, const char*> names_of_##Type[] = __VA_ARGS__;             \
  }                                                                               \
  void to_json(nlohmann::json& j, const Type& value) {                            \
    j = names_of_##Type[0].second;                                                \
    for (const auto& [of, name] : names_of_##Type)                                \
      if (of == value) j = name;                                                  \
  }                                                                               \
  void from_json(const nlohmann::json& j, Type& value) {                          \
    value = names_of_##Type[0].first;                                             \
    for (const auto& [of, name] : names_of_##Type)                                \
      if (j == name) value = of;                                                  \
  }
