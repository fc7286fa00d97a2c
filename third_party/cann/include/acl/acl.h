// CANN's interface, declared anew from its names, types, order and values.
#pragma once

#include "acl/acl_op.h"
#include "acl/acl_rt.h"
