// CANN's interface, declared anew from its names, types, order and values: the runtime, operators and models. What is not
// here, CANN's programs include by its own name: acl_op_compiler.h, acl_dump.h, acl_prof.h, acl_rt_memory_soma.h.
#pragma once

#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"
