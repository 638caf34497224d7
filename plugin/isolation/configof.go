// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/local"
)

// ConfigOf returns what containerd's own transfer service was made with: the
// snapshotters, appliers, verifiers and limits that its plugin has found in the
// configuration of the daemon. The service keeps them in a field that is not
// exported, of a type that is. The error says what is missing when a containerd
// has no such field.
func ConfigOf(service transfer.Transferrer) (local.TransferConfig, error) {
	v := reflect.ValueOf(service)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return local.TransferConfig{}, fmt.Errorf("the transfer service is a %T, not a pointer to a struct", service)
	}
	field := v.Elem().FieldByName("config")
	if !field.IsValid() || field.Type() != reflect.TypeFor[local.TransferConfig]() {
		return local.TransferConfig{}, fmt.Errorf("the transfer service, a %T, has no field config of type %s", service, reflect.TypeFor[local.TransferConfig]())
	}
	// Reflection reads no field that is not exported. The address is that of a
	// field of this very type, and the service does not change it.
	return *(*local.TransferConfig)(unsafe.Pointer(field.UnsafeAddr())), nil //nolint:gosec // see above
}
