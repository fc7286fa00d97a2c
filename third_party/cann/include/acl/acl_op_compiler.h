// CANN's interface: what clients include by its name, operators that are compiled when they are called.
#pragma once

#include "acl/acl_op.h"
