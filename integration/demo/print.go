// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	width = 80 // of terminals, and of this page
	keys  = 14 // the column of keys, with its indent
)

// colour is an SGR code of terminals; "" for none.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// printer writes the story, in colours only to a terminal.
type printer struct {
	w       io.Writer
	colours bool
	err     error // the first of a write; nothing is written after it
}

func newPrinter(f *os.File) *printer {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &printer{w: f, colours: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (p *printer) paint(c colour, s string) string {
	if !p.colours || c == plain {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// text writes a wrapped paragraph.
func (p *printer) text(indent int, c colour, s string) {
	for _, line := range wrap(s, width-indent) {
		p.printf("%*s%s\n", indent, "", p.paint(c, line))
	}
}

// field writes a key and its wrapped value.
func (p *printer) field(key string, c colour, value string) {
	for i, line := range wrap(value, width-keys) {
		if i > 0 {
			key = ""
		}
		label := fmt.Sprintf("%-*s", keys, "    "+key)
		if line == "" {
			label = strings.TrimRight(label, " ")
		}
		p.printf("%s%s\n", p.paint(dim, label), p.paint(c, line))
	}
}

func (p *printer) blank() { p.printf("\n") }

// lines writes text as it is. Lines that are wider than the page, such as those with a long
// path, are cut.
func (p *printer) lines(indent int, s string) {
	for line := range strings.Lines(s) {
		rest := []rune(strings.TrimRight(line, " \n"))
		for ; len(rest) > width-indent; rest = rest[width-indent:] {
			p.printf("%*s%s\n", indent, "", string(rest[:width-indent]))
		}
		p.printf("%s\n", strings.TrimRight(strings.Repeat(" ", indent)+string(rest), " "))
	}
}

// opening introduces the cast.
func (p *printer) opening(w *world) {
	p.text(0, bold, "A node that pulls by policy")
	p.text(0, plain, "A real containerd with pullwarden, and two registries on this machine. At each step something "+
		"happens in the world and a pod starts, with imagePullPolicy: Always unless it says another, so that its "+
		"kubelet asks the node for the image. The node decides.")
	p.blank()
	p.field("registry", plain, fmt.Sprintf("%s, at %s, TLS and tokens, %v away", registryName, w.registry.Host(), registryDelay))
	p.field("mirror", plain, fmt.Sprintf("of %s only, at %s, %v away, named in the node's hosts.toml", webRepo, w.mirror.Host(), mirrorDelay))
	p.field("node", plain, "the containerd that was built; in its config.toml:")
	p.blank()
	p.lines(keys, `[plugins."io.containerd.image-policy.v1.pullwarden"]`+"\n  "+strings.Join(section, "\n  "))
	p.blank()
	p.field("", plain, "and in its rule file "+ruleFile+":")
	p.blank()
	p.lines(keys, rules)
}

func (p *printer) begin(number int, s step) {
	p.blank()
	p.text(0, bold, fmt.Sprintf("%d. %s", number, s.title))
	p.text(4, plain, s.world)
	p.field("pod", plain, describe(s.pod))
	p.field("image", plain, s.pod.image)
}

func (p *printer) end(s step, h happened) {
	d := h.decision
	if h.asked {
		p.field("kubelet", plain, "asks whether the image is there, is told that it is not, and pulls")
	}
	p.field("decided", colourOf(d.Outcome), strings.TrimSpace(fmt.Sprintf("%s (%s) %s", d.Outcome, d.Reason, short(d.Digest))))
	p.field("by", plain, d.DecidedBy)
	if h.err != nil {
		p.field("kubelet", plain, "does not start the pod, reason "+node.KubeletReason(h.err))
		p.field("error", plain, status.Convert(h.err).Message())
	}
	if d.Outcome == "UsedCached" {
		line := fmt.Sprintf("%s: %s; last checked %s", d.Level, d.Message, d.LastChecked)
		if d.Tried != "" {
			line += "; " + d.Tried
		}
		p.field("log", plain, line)
		for _, key := range []string{"stale-reason", "stale-since"} {
			p.field("label", plain, node.LabelPrefix+key+"="+h.stale[key])
		}
	}
	if h.freed {
		p.field("label", plain, node.LabelPrefix+"stale-reason and "+node.LabelPrefix+"stale-since are gone")
	}
	p.field("took", plain, h.took.Round(time.Millisecond).String())
	key := "cost"
	for _, c := range h.costs {
		p.field(key, plain, c.String())
		key = ""
	}
	p.field("→", plain, s.so)
}

// ending says that all went well.
func (p *printer) ending(took time.Duration) {
	p.text(0, green, fmt.Sprintf("All %d decisions were as told, in %v. The node and the registries are taken down now.",
		len(story), took.Round(100*time.Millisecond)))
}

func colourOf(outcome string) colour {
	switch outcome {
	case "UsedCached":
		return yellow
	case "Failed":
		return red
	}
	return green
}

// short cuts a digest to what tells it from another.
func short(digest string) string {
	const n = len("sha256:") + 12
	return digest[:min(len(digest), n)]
}

func describe(p pod) string {
	parts := []string{p.name}
	for _, hint := range p.hints {
		parts = append(parts, "annotation "+node.LabelPrefix+hint[0]+": "+hint[1])
	}
	if p.secret != nil {
		parts = append(parts, "with a pull secret")
	}
	if p.ifNotPresent {
		parts = append(parts, "imagePullPolicy: IfNotPresent")
	}
	return strings.Join(parts, ", ")
}

// String lists the requests, equal ones counted.
func (c cost) String() string {
	if len(c.requests) == 0 && c.connections == 0 {
		return c.name + ": no request, no connection"
	}
	var kinds []string
	count := map[string]int{}
	for _, r := range c.requests {
		kind := kindOf(r)
		if count[kind] == 0 {
			kinds = append(kinds, kind)
		}
		count[kind]++
	}
	for i, kind := range kinds {
		if n := count[kind]; n > 1 {
			kinds[i] = fmt.Sprintf("%d × %s", n, kind)
		}
	}
	return fmt.Sprintf("%s: %s (%s), %s", c.name, plural(len(c.requests), "request"), strings.Join(kinds, ", "), plural(c.connections, "new connection"))
}

func kindOf(r resolvertest.Request) string {
	part := map[resolvertest.Part]string{resolvertest.Manifests: "manifest", resolvertest.Blobs: "blob", resolvertest.Tokens: "token"}[r.Part]
	if part == "" {
		part = r.Path
	}
	if r.Status >= http.StatusBadRequest {
		part = fmt.Sprintf("%s → %d", part, r.Status)
	}
	return r.Method + " " + part
}

func plural(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// wrap breaks a text at spaces into lines of at most so many characters. Words
// that are longer are cut.
func wrap(s string, width int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(s) {
		size := utf8.RuneCountInString(word)
		if used > 0 && used+1+size > width {
			lines = append(lines, line)
			line, used = "", 0
		}
		for ; size > width; size -= width {
			r := []rune(word)
			lines = append(lines, string(r[:width]))
			word = string(r[width:])
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+size
	}
	return append(lines, line)
}
