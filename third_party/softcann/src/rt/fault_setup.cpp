// Gives the fault layer, below this one, the options and the means to report.
#include "fault/lifecycle.h"
#include "rt/runtime.h"

namespace softcann {
namespace {

__attribute__((constructor)) void set_faults_up() { fault::configure(options().fault, options().trace, fail); }

}  // namespace
}  // namespace softcann
