// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	over   = 10 // seconds of one point
	width  = 8 * vg.Inch
	height = 3 * vg.Inch
)

// colors are told apart without red and green (Okabe and Ito).
var colors = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{213, 94, 0, 255},
}

// draw draws a scenario: requests a second of all arms, and below them those of each arm
// by their kind.
func draw(file string, arms []result) error {
	all := newPlot(fmt.Sprintf("%s (%d nodes): requests a second at the registry", arms[0].Title, arms[0].Nodes))
	plots := [][]*plot.Plot{{all}}
	for i := range arms {
		r := &arms[i]
		if err := addLine(all, r.Arm, colors[i%len(colors)], r.rates(r.Registry, over, requests...)); err != nil {
			return err
		}
		kinds := newPlot(r.Arm)
		for k, kind := range requests {
			if err := addLine(kinds, kind, colors[k%len(colors)], r.rates(r.Registry, over, kind)); err != nil {
				return err
			}
		}
		plots = append(plots, []*plot.Plot{kinds})
	}
	canvas := vgsvg.New(width, height*vg.Length(len(plots)))
	tiles := vgdraw.Tiles{Rows: len(plots), Cols: 1, PadY: vg.Millimeter * 4}
	for _, row := range plots {
		row[0].Y.Max *= 1.4 // for the legend
	}
	for i, row := range plot.Align(plots, tiles, vgdraw.New(canvas)) {
		plots[i][0].Draw(row[0])
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(out); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "minutes", "requests/s"
	p.Y.Min = 0
	p.Legend.Top = true
	p.BackgroundColor = color.White
	p.Add(plotter.NewGrid())
	return p
}

func addLine(p *plot.Plot, name string, c color.Color, rates []float64) error {
	points := make(plotter.XYs, len(rates))
	for i, rate := range rates {
		points[i] = plotter.XY{X: float64(i*over) / 60, Y: rate}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, vg.Points(1)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}
