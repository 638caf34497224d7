// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"context"
	"io"
	"reflect"
	"unsafe"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // the storage of every Registry
)

func startApp() *handlers.App {
	config := &configuration.Configuration{
		Storage: configuration.Storage{
			"inmemory":    configuration.Parameters{},
			"delete":      configuration.Parameters{"enabled": true},
			"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
		},
	}
	config.Validation.Manifests.URLs.Allow = []string{".*"} // of layers
	return handlers.NewApp(discardLogger{context.Background()}, config)
}

// stopApp also ends the goroutine of the app's event broadcaster, which
// Shutdown forgets and no exported name reaches.
func stopApp(app *handlers.App) {
	_ = app.Shutdown()
	sink := reflect.ValueOf(app).Elem().FieldByName("events").FieldByName("sink")
	_ = reflect.NewAt(sink.Type(), unsafe.Pointer(sink.UnsafeAddr())).Elem().Interface().(io.Closer).Close() //nolint:gosec // see above
}
