// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

var errOver = errors.New("the request is answered")

// sharedBody returns a request that is sent by several tries, and a function that is called
// when it is answered. Bodies are asked for one after the other, and none afterwards: a
// transport before this one, such as otelhttp's, keeps what it gives, without a lock, and looks at
// that when it has an answer.
func sharedBody(req *http.Request) (shared *http.Request, over func()) {
	if req.GetBody == nil {
		return req, func() {}
	}
	var mu sync.Mutex
	answered := false
	shared = req.WithContext(req.Context())
	shared.GetBody = func() (io.ReadCloser, error) {
		mu.Lock()
		defer mu.Unlock()
		if answered {
			return nil, errOver
		}
		return req.GetBody()
	}
	return shared, func() {
		mu.Lock()
		defer mu.Unlock()
		answered = true
	}
}
