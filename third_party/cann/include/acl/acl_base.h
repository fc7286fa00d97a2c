// CANN's interface: what all other headers of it begin with. It is parted as CANN's is.
#pragma once

#include "acl_base_mdl.h"
#include "acl_base_rt.h"
#include "error_codes/ge_error_codes.h"
#include "error_codes/rt_error_codes.h"
