// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"reflect"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Wrap replaces the image service inside the instance of containerd's plugin
// io.containerd.grpc.v1.cri by what decorate makes of it. The instance is of an
// unexported type that embeds the exported interface, so the field is found by
// reflection; containerd's own instrumentation (namespace, errors, logs) stays
// around it. The error says what is missing when a containerd has no such
// field.
func Wrap(instance any, decorate func(runtime.ImageServiceServer) runtime.ImageServiceServer) error {
	const name = "ImageServiceServer"
	v := reflect.ValueOf(instance)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return fmt.Errorf("the CRI plugin is a %T, not a struct", instance)
	}
	described, ok := v.Type().FieldByName(name)
	if !ok {
		return fmt.Errorf("the CRI plugin %T has no field %s", instance, name)
	}
	field, err := v.FieldByIndexErr(described.Index)
	if err != nil {
		return fmt.Errorf("field %s of the CRI plugin %T: %w", name, instance, err)
	}
	if !field.CanSet() {
		return fmt.Errorf("field %s of the CRI plugin %T cannot be set", name, instance)
	}
	inner, ok := field.Interface().(runtime.ImageServiceServer)
	if !ok {
		return fmt.Errorf("field %s of the CRI plugin %T is a %s", name, instance, field.Type())
	}
	field.Set(reflect.ValueOf(decorate(inner)))
	return nil
}
