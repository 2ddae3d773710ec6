/* Opening a backend for one of several processes on a machine. */
#ifndef TOMOS_BACKEND_OPEN_H
#define TOMOS_BACKEND_OPEN_H

#include "tomos.h"

/* As tomos_backend_open_with. If the name does not say which device, process `turn` of the machine
 * takes device `turn` modulo the number of devices. */
tomos_status backend_open_in_turn(
	tomos_backend **backend, const char *name, int turn, const tomos_device_options *options);

/* The device of a backend that works on one, in pieces because of a limit to its memory: *bytes is
 * that limit. Any other backend itself, and 0. Valid as long as `backend`. */
tomos_backend *backend_limited(tomos_backend *backend, int64_t *bytes);

enum { PLACE_LENGTH = 64 };

/* The name of the device in all processes of the machine; "": the data are in host memory. */
tomos_status backend_place(const tomos_backend *backend, char place[PLACE_LENGTH]);
/* This many processes, this one included, divide the free memory of the device. */
tomos_status backend_share(const tomos_backend *backend, int processes);

#endif
