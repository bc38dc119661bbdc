// Router: a plain table from method and path to a handler. A path that ends in "/{name}" takes all that follows.
// HEAD is served by GET's row. It needs no server: what a flag says of a route is checked before anything is loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/exchange.h"

namespace octavo {

class Service;

using Handler = std::function<void(Service&, const std::shared_ptr<Exchange>&)>;

struct Route {
  std::string method;
  std::string path;
  Handler handler;
  bool generates = false;    // starts work of the engine: refused while the server is going away
  bool for_programs = true;  // in /openapi.json
};

class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }

  struct Match {
    const Route* route = nullptr;  // null: none
    std::string allowed;           // the methods that the path has, "GET, HEAD"; empty: no such path
  };
  Match find(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

// What stands for {name} in a path that matches.
std::string_view last_part(const Route& route, std::string_view path);

}  // namespace octavo
