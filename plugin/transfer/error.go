// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import "errors"

// ErrGone is why a pull, or a comparison, has come to nothing: the image that it has stored,
// or compares, is not there any more.
var ErrGone = errors.New("the image was removed meanwhile")

// maxErrorText bounds the text of containerd's errors, in bytes: see shorterror.
const maxErrorText = 1 << 10
