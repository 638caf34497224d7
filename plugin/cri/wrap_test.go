// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The shapes that containerd's CRI plugin has.
type (
	criService struct {
		runtime.RuntimeServiceServer
		runtime.ImageServiceServer
	}
	criServiceWithTCP struct{ *criService }
)

type stock struct {
	runtime.UnimplementedImageServiceServer
}

type decorated struct{ runtime.ImageServiceServer }

func TestWrap(t *testing.T) {
	decorate := func(inner runtime.ImageServiceServer) runtime.ImageServiceServer { return decorated{inner} }
	inner := &stock{}
	plain := &criService{ImageServiceServer: inner}
	withTCP := criServiceWithTCP{&criService{ImageServiceServer: inner}}
	for instance, service := range map[any]*criService{plain: plain, withTCP: withTCP.criService} {
		if err := Wrap(instance, decorate); err != nil {
			t.Errorf("%T: %v", instance, err)
			continue
		}
		if d, ok := service.ImageServiceServer.(decorated); !ok || d.ImageServiceServer != inner {
			t.Errorf("%T: the service is a %T", instance, service.ImageServiceServer)
		}
	}
}

// A containerd that no longer has the place must not run undecorated.
func TestWrapRefuses(t *testing.T) {
	type renamed struct{ Images runtime.ImageServiceServer }
	type retyped struct{ ImageServiceServer string }
	for instance, want := range map[any]string{
		&renamed{}:                               "no field ImageServiceServer",
		&retyped{}:                               "is a string",
		criService{ImageServiceServer: &stock{}}: "cannot be set",
		criServiceWithTCP{}:                      "nil",
		7:                                        "not a struct",
	} {
		err := Wrap(instance, func(inner runtime.ImageServiceServer) runtime.ImageServiceServer { return inner })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", instance, err, want)
		}
	}
	if err := Wrap(nil, nil); err == nil {
		t.Error("nil was accepted")
	}
}
