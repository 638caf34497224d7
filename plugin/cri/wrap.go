// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"reflect"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Decorator wraps containerd's own CRI services.
type Decorator func(runtime.RuntimeServiceServer, runtime.ImageServiceServer) (runtime.RuntimeServiceServer, runtime.ImageServiceServer)

// Wrap replaces the services inside the instance of containerd's plugin
// io.containerd.grpc.v1.cri by what decorate makes of them. The instance is of
// an unexported type that embeds the exported interfaces, so the fields are
// found by reflection; containerd's own instrumentation (namespace, errors,
// logs) stays around them. The error says what is missing when a containerd has
// no such fields; nothing is replaced then.
func Wrap(instance any, decorate Decorator) error {
	runtimeField, runtimes, err := service[runtime.RuntimeServiceServer](instance, "RuntimeServiceServer")
	if err != nil {
		return err
	}
	imageField, images, err := service[runtime.ImageServiceServer](instance, "ImageServiceServer")
	if err != nil {
		return err
	}
	runtimes, images = decorate(runtimes, images)
	runtimeField.Set(reflect.ValueOf(runtimes))
	imageField.Set(reflect.ValueOf(images))
	return nil
}

// service finds the field of that name and type.
func service[T any](instance any, name string) (field reflect.Value, inner T, err error) {
	v := reflect.ValueOf(instance)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return field, inner, fmt.Errorf("the CRI plugin is a %T, not a struct", instance)
	}
	described, ok := v.Type().FieldByName(name)
	if !ok {
		return field, inner, fmt.Errorf("the CRI plugin %T has no field %s", instance, name)
	}
	field, err = v.FieldByIndexErr(described.Index)
	if err != nil {
		return field, inner, fmt.Errorf("field %s of the CRI plugin %T: %w", name, instance, err)
	}
	if !field.CanSet() || field.Type() != reflect.TypeFor[T]() {
		return field, inner, fmt.Errorf("field %s of the CRI plugin %T, a %s, cannot be set to a %s", name, instance, field.Type(), reflect.TypeFor[T]())
	}
	if inner, ok = field.Interface().(T); !ok {
		return field, inner, fmt.Errorf("field %s of the CRI plugin %T is nil", name, instance)
	}
	return field, inner, nil
}
