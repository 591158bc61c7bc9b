// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
)

func file(t *testing.T, name string) string {
	t.Helper()
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// luminance is that of WCAG for a color in the form #rrggbb.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		value, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		channel := float64(value) / 255
		if channel <= 0.03928 {
			channel /= 12.92
		} else {
			channel = math.Pow((channel+0.055)/1.055, 2.4)
		}
		sum += weight * channel
	}
	return sum
}

// R588: all colors of text have a contrast of at least 4.5 with all backgrounds, in light and dark.
func TestColorsHaveContrast(t *testing.T) {
	css := file(t, "style.css")
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(css, -1)
	if len(schemes) != 2 {
		t.Fatalf("got %d color schemes", len(schemes))
	}
	for i, scheme := range schemes {
		colors := map[string]string{}
		for _, found := range regexp.MustCompile(`--([a-z]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(scheme[1], -1) {
			colors[found[1]] = found[2]
		}
		for _, text := range []string{"text", "muted", "ok", "warning", "problem", "accent"} {
			for _, behind := range []string{"background", "raised", "chosen"} {
				front, back := luminance(t, colors[text]), luminance(t, colors[behind])
				if ratio := (max(front, back) + 0.05) / (min(front, back) + 0.05); ratio < 4.5 {
					t.Errorf("scheme %d: %s on %s has a contrast of %.2f", i, text, behind, ratio)
				}
			}
		}
	}
	if rest := regexp.MustCompile(`(?s):root \{.*?\}`).ReplaceAllString(css, ""); regexp.MustCompile(`color: #|fill: #|rgb\(`).MatchString(rest) {
		t.Error("there are colors that have no name")
	}
}

// R588: all controls of the page have names.
func TestControlsHaveNames(t *testing.T) {
	html := file(t, "index.html")
	for _, button := range regexp.MustCompile(`<button[^>]*>([^<]*)</button>`).FindAllStringSubmatch(html, -1) {
		if strings.TrimSpace(button[1]) == "" {
			t.Errorf("%s has no name", button[0])
		}
	}
	if strings.Count(html, "<button") != strings.Count(html, "</button>") || strings.Count(html, "<button") < 4 {
		t.Error("buttons are missing")
	}
	for _, input := range regexp.MustCompile(`<input id="([a-z]+)"`).FindAllStringSubmatch(html, -1) {
		if !strings.Contains(html, `<label for="`+input[1]+`">`) {
			t.Errorf("%s has no label", input[1])
		}
	}
	for _, node := range regexp.MustCompile(`<[^>]*(tabindex="0"|role="group")[^>]*>`).FindAllString(html, -1) {
		if !strings.Contains(node, "aria-label") {
			t.Errorf("%s has no name", node)
		}
	}
}

// R589: a page receives thousands of services, so that its search finds all, and shows 200 of them.
func TestPageReceivesAllServices(t *testing.T) {
	const count = 3000
	var objects []runtime.Object
	for i := range count {
		exported := clustertest.NewExported("west", time.Hour)
		exported.Name, exported.Spec.Service = fmt.Sprintf("s%d.west", i), fmt.Sprintf("s%d", i)
		objects = append(objects, exported)
	}
	p := start(t, clustertest.NewCluster(objects...)).open(t)
	p.until(func() bool { return len(p.entries[serviceEntry]) == count })
	if !strings.Contains(file(t, "services.js"), "const limit = 200;") {
		t.Error("the list has another limit")
	}
}
