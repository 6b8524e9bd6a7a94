"""The texts of simulated posts in Vietnamese and English, by mood; `{k}` is the keyword."""

from collections.abc import Mapping
from typing import Literal

Mood = Literal["good", "bad", "flat", "asking"]
Language = Literal["vi", "en"]

POSTS: Mapping[Language, Mapping[Mood, tuple[str, ...]]] = {
    "vi": {
        "good": (
            "Mình dùng {k} được ba tháng rồi, phải nói là quá ưng, chạy êm và pin trâu hơn mong đợi.",
            "{k} đợt này nâng cấp xịn thật sự, đáng đồng tiền bát gạo, chốt luôn không phải nghĩ.",
            "Trải nghiệm {k} sau một tuần: thiết kế đẹp, nhân viên tư vấn nhiệt tình, 10 điểm không có nhưng.",
            "Ai còn phân vân thì cứ mua {k} đi nha, giao hàng nhanh, đóng gói cẩn thận, giá lại tốt.",
        ),
        "bad": (
            "Thất vọng với {k}, mới mua hai tuần đã lỗi màn hình, gọi bảo hành thì đùn đẩy trách nhiệm.",
            "Cảnh báo mọi người về {k}: quảng cáo một đằng, chất lượng một nẻo, tốn tiền oan.",
            "{k} nóng máy kinh khủng, pin tụt nhanh, cập nhật xong còn tệ hơn. Không bao giờ mua lại.",
            "Chờ {k} hơn một tháng chưa thấy đâu, tổng đài thì không ai nghe máy, làm ăn quá tệ.",
        ),
        "flat": (
            "Video đập hộp {k} bản tiêu chuẩn, thông số mình để ở phần bình luận nhé.",
            "Hôm nay đi ngang showroom thấy trưng bày {k}, tiện quay cho mọi người xem.",
            "So sánh nhanh {k} với đối thủ cùng tầm giá, mời cả nhà xem và tự đánh giá.",
        ),
        "asking": (
            "Cho mình hỏi {k} giá bao nhiêu và mua ở đâu chính hãng ạ?",
            "Có ai dùng {k} rồi cho em xin đánh giá với, em đang phân vân giữa hai bản.",
        ),
    },
    "en": {
        "good": (
            "Three months with {k} and I am genuinely impressed: smooth, quiet, and the battery just keeps going.",
            "Hands down the best upgrade I made this year. {k} is worth every penny.",
            "Support for {k} replaced my unit within a day, no questions asked. Love this team!",
        ),
        "bad": (
            "Really disappointed with {k}. Two weeks in and the screen flickers, and support keeps passing me around.",
            "Do not believe the ads, {k} overheats after ten minutes. Waste of money.",
            "Still waiting for my {k} after a month. Nobody answers the phone. Terrible service.",
        ),
        "flat": (
            "Unboxing the base model of {k} today, specs in the comments.",
            "Quick side-by-side of {k} and its closest rival, make up your own mind.",
        ),
        "asking": (
            "Has anyone tried {k} yet? Thinking of ordering one, how much did you pay?",
            "Where can I buy {k} outside the capital, and is the warranty valid everywhere?",
        ),
    },
}
COMMENTS: Mapping[Language, Mapping[Mood, tuple[str, ...]]] = {
    "vi": {
        "good": ("Chuẩn luôn bạn ơi", "Mình cũng dùng, rất hài lòng", "Đẹp quá, xin giá với ạ", "Quá xịn 😍"),
        "bad": (
            "Hàng kém chất lượng lắm",
            "Mình bị lỗi y chang",
            "Đừng mua nha mọi người",
            "Chán thật sự 😡",
        ),
        "flat": ("Đang hóng review", "Xem cho biết", "Chấm hóng"),
        "asking": ("Giá bao nhiêu vậy shop?", "Mua ở đâu ạ?"),
    },
    "en": {
        "good": ("Totally agree", "Got mine last week, love it", "So good 😍"),
        "bad": ("Mine broke too", "Avoid!!", "What a rip-off 😡"),
        "flat": ("Following", "First"),
        "asking": ("How much is it?", "Where did you get it?"),
    },
}
TAGS: Mapping[Language, tuple[str, ...]] = {
    "vi": ("review", "danhgia", "xuhuong", "muasam", "congnghe", "trainghiem"),
    "en": ("review", "unboxing", "fyp", "tech", "honest"),
}
NAMES: Mapping[Language, tuple[str, ...]] = {
    "vi": ("Lan Anh", "Minh Quân", "Thu Hà", "Đức Huy", "Ngọc Trâm", "Tuấn Kiệt", "Bảo Ngọc", "Hoàng Nam"),
    "en": ("Alex Reed", "Sam Carter", "Priya Nair", "Jordan Blake", "Mia Chen", "Chris Novak"),
}
