// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// CheckConfig implements Source.
func (src *source) CheckConfig(config []byte) error {
	return src.log.checkConfig(ocispec.MediaTypeImageConfig, config)
}

// checkConfig returns an error for a config that names things by a secret of the pull where that would get into errors
// and logs of containers, in which nobody knows it any more; nil for what is called something else.
func (l *fetchLog) checkConfig(mediaType string, data []byte) error {
	if field := documents.RepeatsIn(mediaType, data, l.documents().LongTexts().In); field != "" {
		return fmt.Errorf("%s has a secret of the request", field)
	}
	return nil
}
