// CANN's interface of the runtime, in parts that programs do not name: CANN has them in this file.
#pragma once

#include "acl_base.h"
#include "acl_rt_allocator.h"
#include "acl_rt_device.h"
#include "acl_rt_kernel.h"
#include "acl_rt_memory.h"
#include "acl_rt_model.h"
#include "acl_rt_stream.h"
