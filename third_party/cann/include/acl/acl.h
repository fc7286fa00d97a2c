// CANN's interface, declared anew from its names, types, order and values.
#pragma once

#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"
#include "acl_rt_allocator.h"
