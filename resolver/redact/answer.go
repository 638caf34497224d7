// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
)

const (
	maxReason = 256  // bytes of a registry's own words that an error repeats
	more      = " …" // ends a reason of which there was more

	// MaxAnswer is how much is read of the body of an answer that is an error, in bytes.
	// Docker's resolver reads as much.
	MaxAnswer = 64_000
)

// Request says which request failed, and gives the error a clean text.
func (r *Redactor) Request(req *http.Request, err error) error {
	return r.Wrap(fmt.Sprintf("%s %s: %v", req.Method, r.URL(req.URL), err), err)
}

// Answer describes an answer that is no success, as docker's resolver reports
// it. The text has no secrets that are known by now.
func (r *Redactor) Answer(a remoteerrors.ErrUnexpectedStatus) string {
	text := fmt.Sprintf("%s %s: %d %s", a.RequestMethod, r.rawURL(a.RequestURL), a.StatusCode, http.StatusText(a.StatusCode))
	return WithReason(text, r.Reason(a.Body))
}

// ReadReason reads, within bounds, what an answer says about itself: the
// errors of the distribution specification, or a short text. Pages are not
// repeated.
func (r *Redactor) ReadReason(resp *http.Response) string {
	if resp.Body == nil {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer))
	if err != nil {
		return ""
	}
	return r.Reason(data)
}

// CleanAnswer returns an answer without the secrets that are known by now, for Answer of a Redactor
// that does not know them. Its reason says where it is not whole: half a secret that the other one knows would not be
// found else.
func (r *Redactor) CleanAnswer(a remoteerrors.ErrUnexpectedStatus) remoteerrors.ErrUnexpectedStatus {
	a.RequestURL, a.Body = r.rawURL(a.RequestURL), []byte(r.reason(a.Body))
	return a
}

// Reason is ReadReason for a body that has been read.
func (r *Redactor) Reason(data []byte) string { return limit(r.reason(data), maxReason) }

// reason is Reason as long as it is.
func (r *Redactor) reason(data []byte) string {
	if len(data) >= MaxAnswer { // it is shortened
		return ""
	}
	var document struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(data, &document) == nil && len(document.Errors) > 0 {
		var parts []string
		for _, e := range document.Errors {
			part := e.Message // as it is: a secret may begin or end with what would be trimmed
			if e.Code != "" {
				part = WithReason(e.Code, e.Message)
			}
			parts = append(parts, part)
		}
		return r.beginning(strings.Join(parts, ", "))
	}
	if contentType := http.DetectContentType(data); !strings.HasPrefix(contentType, "text/plain") {
		return ""
	}
	return r.beginning(string(data))
}

// beginning is the beginning of a reason, which may have been shortened before, without secrets.
func (r *Redactor) beginning(text string) string {
	text, rest := strings.CutSuffix(text, more)
	if len(text) > maxCleaned {
		text, rest = cut(text, maxCleaned), true
	}
	if text = r.whole(text, rest); rest && text != "" {
		text += more
	}
	return text
}

// WithReason appends a reason to a text, unless it is "".
func WithReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}
