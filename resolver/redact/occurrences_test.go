// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
)

// plainly is what occurrences finds, byte by byte.
func plainly(text, value string, rest bool) (is []bool) {
	is = make([]bool, len(text))
	for i := range text {
		end := min(i+len(value), len(text))
		if text[i:end] == value[:end-i] && (rest || end-i == len(value)) {
			for j := i; j < end; j++ {
				is[j] = true
			}
		}
	}
	return is
}

func FuzzOccurrences(f *testing.F) {
	f.Add("abababab-abab", "abab", true)
	f.Add("aabaaabaab", "aabaa", false)
	f.Add("abc", "abcd", true)
	f.Fuzz(func(t *testing.T, text, value string, rest bool) {
		if value == "" {
			return
		}
		got := make([]bool, len(text))
		for at := range occurrences(text, value, rest) {
			for i := at[0]; i < at[1]; i++ {
				got[i] = true
			}
		}
		for i, want := range plainly(text, value, rest) {
			if got[i] != want {
				t.Fatalf("%q in %q: byte %d: %v", value, text, i, got[i])
			}
		}
	})
}

// Whoever chooses secrets and text makes nobody search for long.
func TestTimeOfClean(t *testing.T) {
	var r Redactor
	r.AddCredentials("alice", strings.Repeat("a", 100_000))
	for n := range 16 {
		r.AddToken("Bearer " + strings.Repeat("a", 30_000+n))
	}
	if got := r.Clean("failed: " + strings.Repeat("a", maxCleaned-1_000) + " " + strings.Repeat("a", 1_000_000) + ": file name too long"); got != "failed: ***…: file name too long" {
		t.Errorf("got %.100s", got)
	}
	if got := r.Reason([]byte("failed: " + strings.Repeat("a", 2_000) + " " + strings.Repeat("a", MaxAnswer-3_000))); got != "failed: *** …" {
		t.Errorf("got %.100s", got)
	}
	for n := range maxValues {
		r.AddURL(&url.URL{RawQuery: fmt.Sprintf("s=%s%d", strings.Repeat("a", 50), n)}, "")
	}
	for _, unit := range []string{"a://x'", "a://x'@", `"a://x `, `"a://x @`, `"a://x @" `, `aaaaaaaa%2525&amp;amp;\\u005cu0025`, "a://", "a", `\/`} {
		text := strings.Repeat(unit, maxCleaned/len(unit))
		if got := r.Clean(text); len(got) > MaxText+len("…") {
			t.Errorf("%s: got %.100s", unit, got)
		}
	}
}

// Whoever chooses secrets and text, and has them overlap everywhere, fills no memory.
func TestMemoryOfClean(t *testing.T) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWX"
	var signatures []string
	for length := minSigning; length < len(letters); length++ {
		for from := range letters {
			signatures = append(signatures, "sig="+(letters + letters)[from:from+length])
		}
	}
	var r Redactor
	r.AddURL(&url.URL{RawQuery: strings.Join(signatures, "&")}, "")
	text := strings.Repeat(letters, (maxCleaned-100)/len(letters)) + ` %25 &amp; \\\\`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := r.Clean(text)
	runtime.ReadMemStats(&after)
	if !strings.HasPrefix(got, "*** ") {
		t.Errorf("got %.100s", got)
	}
	if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 64 {
		t.Errorf("it takes %d MB", taken)
	}
}

// Half a secret at the end of what is looked at would not be found.
func TestCleanLongTexts(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	var r Redactor
	r.Add(secret, "two  words of it", "клюква и мёд")
	for _, text := range []string{secret, strings.ToUpper(secret), "two  words of it", "https://alice:hunter22@proxy", "клюква и мёд"} {
		for cut := range len(text) {
			got := r.Clean("denied:" + strings.Repeat(" ", maxCleaned-len("denied:")-cut) + text + " and so on")
			if got != "denied: ***…" && got != "denied:…" {
				t.Errorf("%d bytes: got %s", cut, got)
			}
		}
	}
}

// addTokensOfDashes adds as many tokens as are known, which begin all the same; addSignaturesOfDashes does so with what URLs are
// signed by.
func addTokensOfDashes(r *Redactor) {
	for n := range maxTokens {
		r.AddToken(fmt.Sprintf("Bearer %s%d", strings.Repeat("-", 16_000), n))
	}
}

func addSignaturesOfDashes(r *Redactor) {
	for n := range maxValues {
		r.AddURL(&url.URL{RawQuery: fmt.Sprintf("sig=%s%d", strings.Repeat("-", 100), n)}, "")
	}
}

// A registry chooses its tokens and its answers, each of which is cleaned: what would take seconds is left out, or hidden
// as a whole.
func TestTextsThatTakeLong(t *testing.T) {
	const tail = ` %252e&#38;#46;\\\\.`
	var r Redactor
	addTokensOfDashes(&r)
	for size, want := range map[int]string{MaxAnswer - 100: "", maxCleaned - 100: hidden} {
		body := strings.Repeat(`\-`, size/2) + tail
		if got := r.Reason([]byte(body)); got != want {
			t.Errorf("the reason of %d bytes: got %.100s", size, got)
		}
		if got := strings.TrimSuffix(r.Clean(body), "…"); got != want {
			t.Errorf("the text of %d bytes: got %.100s", size, got)
		}
	}
}

// Who does not know a secret shortens a reason: who does must not take half of it for none.
func TestShortenedReasons(t *testing.T) {
	const secret = "correct horse"
	var first, second Redactor
	second.Add(secret)
	first.Add("known")
	for length := maxCleaned - 20; length < maxCleaned+20; length++ {
		body := strings.Repeat("known", length/5) + strings.Repeat(" ", length%5+1) + secret + strings.Repeat(" and so on", 20)
		got := second.Reason(first.CleanAnswer(remoteerrors.ErrUnexpectedStatus{Body: []byte(body)}).Body)
		if strings.Contains(got, "correct") {
			t.Errorf("%d: got %s", length, got)
		}
	}
}

// A text may be cut in the middle of a secret whose spaces are escaped.
func TestCutAtAnEscapedSpace(t *testing.T) {
	for _, space := range []string{" ", `\ `, `\\ `, "%20", "&#32;", "+", "%5c ", "&#92; "} {
		var r Redactor
		r.Add("known", "Tr0ub4dor correct horse")
		for length := maxCleaned - 60; length < maxCleaned+20; length++ {
			body := strings.Repeat("known", length/5) + strings.Repeat(" ", length%5+1) + strings.Join([]string{"Tr0ub4dor", "correct", "horse"}, space) + strings.Repeat(" and so on", 20)
			if got := r.Reason([]byte(body)) + r.Clean(body); strings.Contains(got, "Tr0ub4dor") {
				t.Errorf("%q, %d: got %s", space, length, got)
			}
		}
	}
}

// What all texts of a session cost together is bounded, too: after that, those are hidden that may have a secret.
func TestManyTextsThatTakeLong(t *testing.T) {
	var r Redactor
	addTokensOfDashes(&r)
	addSignaturesOfDashes(&r)
	text := "failed: " + strings.Repeat("-", 3_000)
	shown := 0
	for range 1_000 {
		if r.Clean(text) != hidden {
			shown++
		}
	}
	if shown == 0 || shown > 100 {
		t.Errorf("%d of 1000 were compared", shown)
	}
	for _, empty := range []string{"", strings.Repeat("x", maxCleaned+1)} {
		_ = r.Clean(empty)
	}
	if got := r.Clean("no such host"); got != "no such host" {
		t.Errorf("got %s", got)
	}
	if r.Texts().Knows("no such host") || !r.TellsHost(&url.URL{Scheme: "https", Host: "storage.test", Path: "/x"}) {
		t.Error("what is refused depends on what was shown")
	}
}

// Traces show a URL for each request, without the query by which it was just signed: that takes nothing of what may be compared.
func TestManySignedURLs(t *testing.T) {
	var r Redactor
	for n := range 2_000 {
		signature := strings.Repeat("%2Bc", 500)
		u := &url.URL{Scheme: "https", Host: "storage.test", Path: "/layer", RawQuery: fmt.Sprintf("policy=%s%d&sig=%s", signature, n, signature)}
		r.AddURL(u, "")
		if got := r.URL(u); got != "https://storage.test/layer" {
			t.Fatalf("%d: got %s", n, got)
		}
	}
	if got := r.Clean("denied: " + strings.Repeat("+c", 500)); got != "denied: ***" {
		t.Errorf("got %s", got)
	}
	if got := r.compared.Load(); got > 1<<20 {
		t.Errorf("%d bytes were compared", got)
	}
}

// Something is refused by the texts of one answer: what they cost together is bounded, and of other answers makes no difference.
func TestTextsOfOneAnswer(t *testing.T) {
	var r Redactor
	addSignaturesOfDashes(&r)
	text := strings.Repeat("-", 3_000)
	for range 2 {
		texts, refused := r.Texts(), 0
		for range 1_000 {
			if texts.Knows(text) {
				refused++
			}
		}
		if refused < 900 || refused == 1_000 || !texts.Crosses(text, 1_000) || !texts.TellsHost(&url.URL{Scheme: "https", Host: "-", Path: text}) {
			t.Errorf("%d of 1000 were refused", refused)
		}
		if texts.Knows("no such host") {
			t.Error("a text without the beginning of a secret is refused")
		}
	}
}

// BenchmarkRefusal is one text, of those of which something is refused, that takes as long as it can.
func BenchmarkRefusal(b *testing.B) {
	var r Redactor
	addTokensOfDashes(&r)
	addSignaturesOfDashes(&r)
	for _, size := range []int{500, 1_000, 2_000, 4_000, 8_000} {
		text := strings.Repeat("-", size-50) + ` %252e&#38;#46;\\\\.`
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				r.Texts().Knows(text)
			}
		})
	}
}
